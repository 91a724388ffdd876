fn main() {
    let dir = std::env::args().nth(1).unwrap();
    for (i, case) in ptx_vm_conformance::cases::all().iter().enumerate() {
        std::fs::write(
            format!("{dir}/{i:04}_{}.ptx", case.target.name()),
            format!("// {}\n{}", case.name, case.module),
        )
        .unwrap();
        let input = case.input(1);
        assert_eq!(case.expected(&input).len(), case.output_bytes, "{}", case.name);
    }
}
