//! The reaction model: ALBERT with one shared encoder layer, applied twelve times, and a
//! masked-language head tied to the word embeddings.

use eindecomp::ein;

/// Tokens in the vocabulary.
pub const VOCABULARY: usize = 591;
/// Positions the model was trained with: the longest input.
pub const POSITIONS: usize = 512;
/// Attention heads.
pub const HEADS: usize = 8;
/// The head, from 0, whose attention in layer 10 follows atoms from products to reactants.
pub const MAPPING_HEAD: usize = 5;

const EMBEDDING: usize = 128;
const HIDDEN: usize = 256;
const INTERMEDIATE: usize = 512;

ein! {
    /// What a token, its position and its segment begin as.
    pub struct Embeddings<dim V, dim P, dim E, dim D> {
        #[name = "albert.embeddings.word_embeddings.weight"] word: f32[V, E],
        #[name = "albert.embeddings.position_embeddings.weight"] position: f32[P, E],
        #[name = "albert.embeddings.token_type_embeddings.weight"] segment: f32[2, E],
        #[name = "albert.embeddings.LayerNorm.weight"] norm: f32[E],
        #[name = "albert.embeddings.LayerNorm.bias"] norm_bias: f32[E],
        #[name = "albert.encoder.embedding_hidden_mapping_in.weight"] up: f32[D, E],
        #[name = "albert.encoder.embedding_hidden_mapping_in.bias"] up_bias: f32[D],
    }

    /// The encoder layer that all twelve share.
    pub struct Layer<dim D, dim F> {
        #[name = "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.query.weight"] query: f32[D, D],
        #[name = "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.query.bias"] query_bias: f32[D],
        #[name = "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.key.weight"] key: f32[D, D],
        #[name = "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.key.bias"] key_bias: f32[D],
        #[name = "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.value.weight"] value: f32[D, D],
        #[name = "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.value.bias"] value_bias: f32[D],
        #[name = "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.dense.weight"] output: f32[D, D],
        #[name = "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.dense.bias"] output_bias: f32[D],
        #[name = "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.LayerNorm.weight"] attention_norm: f32[D],
        #[name = "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.LayerNorm.bias"] attention_norm_bias: f32[D],
        #[name = "albert.encoder.albert_layer_groups.0.albert_layers.0.ffn.weight"] widen: f32[F, D],
        #[name = "albert.encoder.albert_layer_groups.0.albert_layers.0.ffn.bias"] widen_bias: f32[F],
        #[name = "albert.encoder.albert_layer_groups.0.albert_layers.0.ffn_output.weight"] narrow: f32[D, F],
        #[name = "albert.encoder.albert_layer_groups.0.albert_layers.0.ffn_output.bias"] narrow_bias: f32[D],
        #[name = "albert.encoder.albert_layer_groups.0.albert_layers.0.full_layer_layer_norm.weight"] norm: f32[D],
        #[name = "albert.encoder.albert_layer_groups.0.albert_layers.0.full_layer_layer_norm.bias"] norm_bias: f32[D],
    }

    /// The masked-language head; its last matrix is the word embeddings.
    pub struct Head<dim V, dim E, dim D> {
        #[name = "predictions.dense.weight"] down: f32[E, D],
        #[name = "predictions.dense.bias"] down_bias: f32[E],
        #[name = "predictions.LayerNorm.weight"] norm: f32[E],
        #[name = "predictions.LayerNorm.bias"] norm_bias: f32[E],
        #[name = "predictions.bias"] bias: f32[V],
    }

    /// Layer norm over the last axis.
    pub fn layer_norm<dim B, dim S, dim D>(x: f32[B, S, D], gain: f32[D], shift: f32[D]) -> f32[B, S, D] {
        let mu[b, s] = mean[d] x[b, s, d];
        let centred[b, s, d] = x[b, s, d] - mu[b, s];
        let variance[b, s] = mean[d] sq(centred[b, s, d]);
        let y[b, s, d] = centred[b, s, d] * rsqrt(variance[b, s] + 1e-12) * gain[d] + shift[d];
        y
    }

    /// Softmax over the last axis.
    pub fn softmax<dim ..L, dim C>(x: f32[..L, C]) -> f32[..L, C] {
        let m[..l] = max[j] x[..l, j];
        let e[..l, j] = exp(x[..l, j] - m[..l]);
        let z[..l] = sum[j] e[..l, j];
        let p[..l, j] = e[..l, j] / z[..l];
        p
    }

    /// Token, position and segment (always the first), normalised and widened.
    pub fn embed<dim B, dim S, dim V, dim P, dim E, dim D>(ids: u32[B, S], w: Embeddings<V, P, E, D>)
        -> f32[B, S, D]
        where S <= P
    {
        let sum_of_three[b, s, e] = w.word[ids[b, s], e] + w.position[0 + s, e] + w.segment[0, e];
        let x = layer_norm(sum_of_three, w.norm, w.norm_bias);
        let y[b, s, d] = (sum[e] x[b, s, e] * w.up[d, e]) + w.up_bias[d];
        y
    }

    /// One encoder layer, and the attention it paid: from position `s` to position `t`.
    /// Positions whose mask is false are attended to by none.
    pub fn layer<dim B, dim S, dim D, dim F>(x: f32[B, S, D], mask: bool[B, S], w: Layer<D, F>)
        -> (f32[B, S, D], f32[B, HEADS, S, S])
        where D % HEADS == 0
    {
        let q[b, s, h in HEADS, e] = (sum[d] x[b, s, d] * w.query[(h, e), d]) + w.query_bias[(h, e)];
        let k[b, t, h in HEADS, e] = (sum[d] x[b, t, d] * w.key[(h, e), d]) + w.key_bias[(h, e)];
        let v[b, t, h in HEADS, e] = (sum[d] x[b, t, d] * w.value[(h, e), d]) + w.value_bias[(h, e)];
        let scores[b, h, s, t] = if mask[b, t] {
            (sum[e] q[b, s, h, e] * k[b, t, h, e]) * rsqrt((D / HEADS) as f32)
        } else {
            -inf
        };
        let attention = softmax(scores);
        let context[b, s, h, e] = sum[t] attention[b, h, s, t] * v[b, t, h, e];
        let attended[b, s, d] = x[b, s, d] + (sum[h, e] context[b, s, h, e] * w.output[d, (h, e)]) + w.output_bias[d];
        let y = layer_norm(attended, w.attention_norm, w.attention_norm_bias);
        let wide[b, s, f] = gelu((sum[d] y[b, s, d] * w.widen[f, d]) + w.widen_bias[f]);
        let fed[b, s, d] = y[b, s, d] + (sum[f] wide[b, s, f] * w.narrow[d, f]) + w.narrow_bias[d];
        let z = layer_norm(fed, w.norm, w.norm_bias);
        (z, attention)
    }

    /// The logit of every token at every position, and the attention of layer 10 (from 0).
    pub fn albert<dim B, dim S>(
        ids: u32[B, S],
        mask: bool[B, S],
        #[weight] embeddings: Embeddings<VOCABULARY, POSITIONS, EMBEDDING, HIDDEN>,
        #[weight] shared: Layer<HIDDEN, INTERMEDIATE>,
        #[weight] head: Head<VOCABULARY, EMBEDDING, HIDDEN>,
    ) -> (f32[B, S, VOCABULARY], f32[B, HEADS, S, S])
        where S <= POSITIONS
    {
        let mut x = embed(ids, embeddings);
        let mut attention[b in B, h in HEADS, s in S, t in S]: f32 = 0.0;
        for _layer in 0..11 {
            (x, attention) = layer(x, mask, shared);
        }
        let (y, _last_attention) = layer(x, mask, shared);
        let down[b, s, e] = gelu((sum[d] y[b, s, d] * head.down[e, d]) + head.down_bias[e]);
        let z = layer_norm(down, head.norm, head.norm_bias);
        let logits[b, s, v] = (sum[e] z[b, s, e] * embeddings.word[v, e]) + head.bias[v];
        (logits, attention)
    }
}
