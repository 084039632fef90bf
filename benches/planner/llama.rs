//! LLaMA as a graph: what the planner is measured on.

use std::collections::BTreeMap;

use eindecomp_core::graph::{BoundGraph, EinGraph};

const SOURCE: &str = "
struct Layer<dim D, dim H, dim E, dim F> {
    norm: f32[D], query: f32[D, H, E], key: f32[D, H, E], value: f32[D, H, E],
    output: f32[H, E, D], norm2: f32[D], gate: f32[D, F], up: f32[D, F], down: f32[F, D],
}

fn rms<dim B, dim S, dim D>(x: f32[B, S, D], gain: f32[D]) -> f32[B, S, D] {
    let square[b, s] = mean[d] sq(x[b, s, d]);
    let y[b, s, d] = x[b, s, d] * rsqrt(square[b, s] + 1e-5) * gain[d];
    y
}

fn rope<dim B, dim S, dim H, dim E>(x: f32[B, S, H, E], cos: f32[S, E], sin: f32[S, E]) -> f32[B, S, H, E] {
    let y[b, s, h, e] = x[b, s, h, e] * cos[s, e]
        + (if e < E / 2 { -x[b, s, h, e + E / 2] } else { x[b, s, h, e - E / 2] }) * sin[s, e];
    y
}

fn layer<dim B, dim S, dim D, dim H, dim E, dim F>(
    x: f32[B, S, D], cos: f32[S, E], sin: f32[S, E], w: Layer<D, H, E, F>,
) -> f32[B, S, D] {
    let n = rms(x, w.norm);
    let q[b, s, h, e] = sum[d] n[b, s, d] * w.query[d, h, e];
    let k[b, t, h, e] = sum[d] n[b, t, d] * w.key[d, h, e];
    let v[b, t, h, e] = sum[d] n[b, t, d] * w.value[d, h, e];
    let qr = rope(q, cos, sin);
    let kr = rope(k, cos, sin);
    let scores[b, h, s, t] = sum[e] qr[b, s, h, e] * kr[b, t, h, e];
    let scaled[b, h, s, t] = if t <= s { scores[b, h, s, t] * rsqrt(E as f32) } else { -inf };
    let m[b, h, s] = max[t] scaled[b, h, s, t];
    let p[b, h, s, t] = exp(scaled[b, h, s, t] - m[b, h, s]);
    let z[b, h, s] = sum[t] p[b, h, s, t];
    let a[b, h, s, t] = p[b, h, s, t] / z[b, h, s];
    let c[b, s, h, e] = sum[t] a[b, h, s, t] * v[b, t, h, e];
    let o[b, s, d] = sum[h, e] c[b, s, h, e] * w.output[h, e, d];
    let r[b, s, d] = x[b, s, d] + o[b, s, d];
    let n2 = rms(r, w.norm2);
    let g[b, s, f] = sum[d] n2[b, s, d] * w.gate[d, f];
    let u[b, s, f] = sum[d] n2[b, s, d] * w.up[d, f];
    let i[b, s, f] = silu(g[b, s, f]) * u[b, s, f];
    let j[b, s, d] = sum[f] i[b, s, f] * w.down[f, d];
    let y[b, s, d] = r[b, s, d] + j[b, s, d];
    y
}

fn llama<dim B, dim S, dim D, dim H, dim E, dim F>(
    tokens: f32[B, S, D], #[weight] cos: f32[S, E], #[weight] sin: f32[S, E],
    #[weight] layers: [Layer<D, H, E, F>; LAYERS],
) -> f32[B, S, D] {
    let mut x = tokens;
    for w in layers {
        x = layer(x, cos, sin, w);
    }
    x
}
";

/// The decoder layers of LLaMA-7B: `batch` sequences of `sequence` positions.
pub fn llama_7b(layers: usize, batch: i64, sequence: i64) -> BoundGraph {
    let source = SOURCE.replace("LAYERS", &layers.to_string());
    let graph = EinGraph::from_text(&source, "llama", &BTreeMap::new()).expect("a valid program");
    let dims = [
        ("B", batch),
        ("S", sequence),
        ("D", 4096),
        ("H", 32),
        ("E", 128),
        ("F", 11008),
    ];
    let dims = dims.map(|(n, v)| (n.into(), v));
    graph.bind(&dims.into()).expect("sizes that fit")
}
