use proc_macro2::TokenStream;

/// The expansion of a program, a statement or item per line.
fn expansion(source: &str) -> String {
    let stream: TokenStream = format!("eindecomp {{ {source} }}").parse().unwrap();
    let text = crate::run(stream).to_string();
    text.replace("{ ", "{\n")
        .replace("; ", ";\n")
        .replace(" }", "\n}")
        .replace("} ", "}\n")
}

#[test]
fn a_block_and_a_struct() {
    insta::assert_snapshot!(expansion(
        "/// Two matrices.
         pub struct Layer<dim D, dim F> { #[name = \"l.{}.w\"] w: f32[F, D], b: bf16[D] }
         /// Many layers.
         pub(crate) fn net<dim B, dim D>(x: f32[B, D], #[weight] l: [Layer<D, D>; 2 * config::N])
             -> f32[B, D] { let mut y = x; for one in l { y = layer(y, one); } y }
         fn layer<dim B, dim D, dim F>(x: f32[B, D], l: Layer<D, F>) -> f32[B, D] { let y[b, d] = x[b, d] + (l.b[d] as f32); y }"
    ));
}

#[test]
fn items_of_a_program_with_errors_are_emitted() {
    let text =
        expansion("pub fn f(x: f33[4], y: f32[2]) -> f33[4] { x } fn g(x: f32[1]) -> f32[1] { y }");
    assert!(text.contains("pub fn f < 'g , R >"), "{text}");
    assert!(text.contains("fn g < 'g >"), "{text}");
    assert!(text.contains("mod g"), "{text}");
}

#[test]
fn names_that_rust_reserves() {
    let text = expansion(
        "fn f<dim IN, dim SELF>(r#type: f32[IN], self_: f32[SELF]) -> f32[IN] { r#type }",
    );
    assert!(text.contains(r#"r#in "IN" self_ "SELF""#), "{text}");
    assert!(text.contains("pub r#type : eindecomp :: Array"), "{text}");
}

#[test]
fn cfg_holds_for_everything_a_block_becomes() {
    let text =
        expansion("#[cfg(test)] #[must_use] fn f<dim N>(#[weight] x: f32[N]) -> f32[N] { x }");
    let items = text.matches("# [cfg (test)]").count();
    assert_eq!(items, 1 + 1 + 1 + 1 + 2 + 1 + 1, "{text}");
    assert_eq!(
        text.matches("must_use").count(),
        2,
        "once on the function, once in the text"
    );
}

#[test]
fn nothing_is_nothing() {
    assert_eq!(expansion(""), "");
}

#[test]
fn what_must_hold_of_consts_is_left_to_rustc() {
    let text = expansion(
        "fn f<dim B>(x: f32[B, W]) -> f32[B, H, W / H] { let y[b, h in H, e] = x[b, (h, e)]; y }",
    );
    assert!(text.contains("if ! ("), "{text}");
    assert!(text.contains("rem_euclid"), "{text}");
    let text = expansion(
        "fn f<dim B>(x: f32[B, W]) -> f32[B, W] where W % 2 == 0, B >= 1 { let y[b, w] = x[b, w]; y }",
    );
    let failing = "EIN0049: a `where` clause does not hold: `W % 2 == 0` is";
    assert!(text.contains(failing), "{text}");
    assert_eq!(text.matches("does not hold").count(), 1, "{text}");
}

#[test]
fn open_ranks_and_dtypes_are_parameters_of_the_function() {
    let text = expansion(
        "fn f<dim ..L, dim C, T: Float>(x: T[..L, C]) -> T[..L] { let y[..l] = sum[c] x[..l, c]; y }",
    );
    let head = "fn f < 'g , T : eindecomp :: Float , const RANK_L_0 : eindecomp :: __private :: core :: primitive :: usize , const RANK_L_1";
    assert!(text.contains(head), "{text}");
    assert!(!text.contains("fn graph"), "of any rank, it is no program");
    let text = expansion("fn f<dim C, T: Int>(x: T[C], #[weight] w: f32[C]) -> T[C] { x }");
    for part in [
        "pub struct Inputs < T : eindecomp :: Int >",
        "pub struct Weights {",
        "pub struct Outputs < T : eindecomp :: Int >",
        "pub fn graph < T : eindecomp :: Int > () -> eindecomp :: ModelGraph < Model < T > >",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn a_kernel_is_a_function_of_the_crate() {
    let text = expansion(
        "#[kernel = kernels::sort] pub extern fn sort<dim B, dim N>(x: f32[B, N]) -> f32[B, N] splits(B);",
    );
    let kernel = "const KERNEL : eindecomp :: kernel :: KernelFn = kernels :: sort";
    assert!(text.replace('\n', " ").contains(kernel), "{text}");
    assert!(text.contains("pub fn sort < 'g >"), "{text}");
    assert!(!text.contains("struct Inputs"), "a kernel is no program");
    let text = expansion("extern fn sort<dim B>(x: f32[B]) -> f32[B] splits();");
    assert!(text.contains("`sort` has no Rust function"), "{text}");
}
