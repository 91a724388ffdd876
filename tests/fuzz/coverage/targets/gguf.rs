#![no_main]

use epilogue_fuzz::Target;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = Target::Gguf.accepts(input);
});
