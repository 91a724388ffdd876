//! The results as a table for people.

use std::fmt::Write as _;

use serde_json::Value;

/// Everything that was wrong, then a line for every comparison: first ratios, then times.
pub(crate) fn of(records: &[Value]) -> String {
    let mut text = String::new();
    let kind = |kind: &'static str| records.iter().filter(move |record| record["kind"] == kind);
    for record in kind("machine") {
        let _ = writeln!(text, "{}, {}", plain(&record["name"]), plain(&record["nvidia_smi"]));
    }
    let cases: u64 = kind("correct").filter_map(|record| record["cases"].as_u64()).sum();
    let _ = writeln!(text, "correct: {cases} cases; sanitizer clean: {}", kind("clean").count());
    for record in kind("copy") {
        let _ = writeln!(text, "copy: {} TB/s read and written", plain(&record["copy_tb_per_s"]));
    }
    for record in kind("wrong") {
        let _ = writeln!(text, "WRONG {}: {}", plain(&record["step"]), plain(&record["what"]));
    }
    for record in records.iter().filter(|record| record["kind"] == "end" && record["error"].is_string()) {
        let _ = writeln!(text, "FAILED {}: {}", plain(&record["step"]), plain(&record["error"]));
    }
    for record in kind("skipped") {
        let _ = writeln!(text, "skipped {}: {}", plain(&record["step"]), plain(&record["why"]));
    }
    for record in kind("speed").chain(kind("fused")) {
        speed(&mut text, record);
    }
    for kind in ["picks", "knobs", "autotune"] {
        for record in records.iter().filter(|record| record["kind"] == kind) {
            rows(&mut text, record);
        }
    }
    text
}

/// The results of turned knobs or tuning: the first row is the model's choice.
fn rows(text: &mut String, record: &Value) {
    let empty = Vec::new();
    let rows = record["rows"].as_array().unwrap_or(&empty);
    let Some(base) = rows.first().and_then(|row| row["measured_us"].as_f64()) else { return };
    let (what, shape) = (plain(&record["kind"]), record["shape"].to_string());
    let _ =
        writeln!(text, "{what} of {} {shape} {}: {base:.1} us", plain(&record["element"]), plain(&record["epilogue"]));
    for row in rows.iter().skip(1) {
        let name = if row["knob"].is_null() { plain(&row["by"]) } else { plain(&row["knob"]) };
        let value = if row["value"].is_null() { String::new() } else { plain(&row["value"]) };
        let _ = match row["measured_us"].as_f64() {
            Some(us) => writeln!(text, "    {:.3} x the time: {name} {value}", us / base),
            None => writeln!(text, "    refused: {name} {value}: {}", plain(&row["refused"])),
        };
    }
}

/// One comparison: the first contender is ours, and the others' times are given as multiples of its time.
fn speed(text: &mut String, record: &Value) {
    let empty = Vec::new();
    let contenders = record["contenders"].as_array().unwrap_or(&empty);
    let shape: Vec<String> = record["shape"].as_array().unwrap_or(&empty).iter().map(plain).collect();
    let of = |gemm: &str, te: &str| if record[gemm].is_null() { plain(&record[te]) } else { plain(&record[gemm]) };
    let (element, what) = (of("element", "dtype"), of("epilogue", "operation"));
    let _ = write!(text, "{:22} {element:5} {what:24}", shape.join("x"));
    let own = contenders.first().and_then(|own| own["ms"].as_f64());
    let rate = |name: &str| contenders.first().and_then(|own| own[name].as_f64());
    let _ = match (own, rate("tflops"), rate("tb_per_s")) {
        // With few rows, the memory bandwidth matters.
        (Some(ms), Some(_), Some(bytes)) if record["shape"][0].as_u64().is_some_and(|m| m <= 64) => {
            write!(text, " {:9.1} us {bytes:7.2} TB/s", ms * 1e3)
        }
        (Some(ms), Some(tflops), _) => write!(text, " {:9.1} us {tflops:7.1} TFLOP/s", ms * 1e3),
        (Some(ms), None, Some(bytes)) => write!(text, " {:9.1} us {bytes:7.2} TB/s", ms * 1e3),
        _ => write!(text, " ran"),
    };
    let _ = write!(text, " {}", contenders.first().map_or(String::new(), |own| plain(&own["name"])));
    for other in contenders.iter().skip(1) {
        if let (Some(own), Some(ms)) = (own, other["ms"].as_f64()) {
            let _ = write!(text, "; {:.3} x {}", ms / own, plain(&other["name"]));
        }
    }
    if let Some(missing) = record["missing"].as_str() {
        let _ = write!(text, " ({missing})");
    }
    text.push('\n');
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ratios_are_of_our_time() {
        let record = json!({
            "kind": "speed", "shape": [1, 2, 3], "element": "bf16", "epilogue": "plain",
            "contenders": [{"name": "epilogue", "ms": 2.0, "tflops": 5.0}, {"name": "cublaslt", "ms": 3.0, "tflops": 4.0}],
        });
        let text = of(&[record, json!({"kind": "wrong", "step": "s", "what": "w"})]);
        assert!(text.contains("1.500 x cublaslt") && text.contains("WRONG s: w"), "{text}");
    }

    #[test]
    fn knobs_are_of_the_models_time() {
        let row = |knob: &str, us: f64| json!({"knob": knob, "value": "0", "measured_us": us});
        let refused = json!({"knob": "stages", "value": "8", "refused": "no room"});
        let rows = [row("none", 8.0), row("pending", 10.0), refused];
        let record = json!({"kind": "knobs", "shape": [1, 2, 3], "element": "bf16", "epilogue": "plain", "rows": rows});
        let text = of(&[record]);
        assert!(text.contains("1.250 x the time: pending 0\n    refused: stages 8: no room"), "{text}");
    }
}
