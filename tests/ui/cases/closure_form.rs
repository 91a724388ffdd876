fn main() {
    let scale = 2.0;
    let _ = epilogue::closure!(|accum, c: Tensor| {
        let d = scale * accum + c;
        d
    });
    let _ = epilogue::closure!(|accum, c| {
        let d = accum + c;
        d
    });
    let _ = epilogue::closure!(|accum, c: Tensor| 2.0 * accum + c);
    let _ = epilogue::closure!(move |accum| -> Tensor {
        let d = 2.0 * accum;
        d
    });
    let _ = epilogue::closure!(|| {
        let d = 1.0;
        d
    });
    let _ = epilogue::closure!(|c: Tensor| {
        let d = 2.0 * c;
        d
    });
    let _ = epilogue::closure!(|accum| {
        let d: RowVector<f16> = 2.0 * accum;
        let e: f16 = 2.0 * accum;
        (d, e)
    });
    let _ = epilogue::closure!(accum);
}
