fn main() {
    let scale = 2.0;
    let _ = epilogue::epilogue!(|accum, c: Tensor| {
        let d = scale * accum + c;
        d
    });
    let _ = epilogue::epilogue!(|accum, c| {
        let d = accum + c;
        d
    });
    let _ = epilogue::epilogue!(|accum, c: Tensor| 2.0 * accum + c);
    let _ = epilogue::epilogue!(move |accum| -> Tensor {
        let d = 2.0 * accum;
        d
    });
    let _ = epilogue::epilogue!(|| {
        let d = 1.0;
        d
    });
    let _ = epilogue::epilogue!(|c: Tensor| {
        let d = 2.0 * c;
        d
    });
    let _ = epilogue::epilogue!(|accum| {
        let d: RowVector<f16> = 2.0 * accum;
        let e: f16 = 2.0 * accum;
        (d, e)
    });
    let _ = epilogue::epilogue!(accum);
}
