use super::*;

fn graph(source: &str, block: &str, consts: &[(&str, i64)]) -> EinGraph {
    let consts = consts.iter().map(|(n, v)| (Arc::from(*n), *v)).collect();
    match EinGraph::from_text(source, block, &consts) {
        Ok(graph) => graph,
        Err(TextError::Program(diags)) => {
            let shown: String = diags.iter().map(|d| d.render(source).to_string()).collect();
            panic!("{shown}")
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_reduction_is_one_vertex_and_inner_ones_float() {
    let graph = graph(
        "fn f<dim T, dim D, dim F>(x: f32[T,D], w1: f32[D,F], w3: f32[D,F]) -> f32[T,F] {
            let a[t,f] = silu(sum[d] x[t,d] * w1[d,f]) * sum[d] x[t,d] * w3[d,f];
            a
        }",
        "f",
        &[],
    );
    insta::assert_snapshot!(graph, @r#"
    eingraph {
      %0 "x" = input f32[T, D]
      %1 "w1" = input f32[D, F]
      %2 "w3" = input f32[D, F]
      %3 "a.sum1" = sum[d=D; f32] %0[t, d] * %1[d, f] -> f32[t=T, f=F]
      %4 "a.sum2" = sum[d=D; f32] %0[t, d] * %2[d, f] -> f32[t=T, f=F]
      %5 "a" = silu(%3[t, f]) * %4[t, f] -> f32[t=T, f=F]
      output "a" = %5
    }
    "#);
}
