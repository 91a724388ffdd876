fn run<E: epilogue::Epilogue>(_: &E, _: E::Arguments<'_>) {}

fn main() {
    let e = epilogue::closure!(|accum, c: Tensor, alpha: Scalar| {
        let d = alpha * accum + c;
        d
    });
    run(&e, e.alpha(1.0));
}
