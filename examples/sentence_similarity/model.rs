//! all-MiniLM-L6-v2: a BERT encoder of six layers, the mean over a sentence's tokens, and the
//! unit vector of that.

use eindecomp::ein;

/// Tokens in the vocabulary.
pub const VOCABULARY: usize = 30522;
/// Positions the model was trained with: the longest input.
pub const POSITIONS: usize = 512;
/// Width of a hidden state, and of a sentence vector.
pub const HIDDEN: usize = 384;

const INTERMEDIATE: usize = 1536;
const HEADS: usize = 12;
const LAYERS: usize = 6;

ein! {
    /// What a token, its position and its segment begin as.
    pub struct Embeddings<dim V, dim P, dim D> {
        #[name = "embeddings.word_embeddings.weight"] word: f32[V, D],
        #[name = "embeddings.position_embeddings.weight"] position: f32[P, D],
        #[name = "embeddings.token_type_embeddings.weight"] segment: f32[2, D],
        #[name = "embeddings.LayerNorm.weight"] norm: f32[D],
        #[name = "embeddings.LayerNorm.bias"] norm_bias: f32[D],
    }

    /// One encoder layer.
    pub struct Layer<dim D, dim F> {
        #[name = "encoder.layer.{}.attention.self.query.weight"] query: f32[D, D],
        #[name = "encoder.layer.{}.attention.self.query.bias"] query_bias: f32[D],
        #[name = "encoder.layer.{}.attention.self.key.weight"] key: f32[D, D],
        #[name = "encoder.layer.{}.attention.self.key.bias"] key_bias: f32[D],
        #[name = "encoder.layer.{}.attention.self.value.weight"] value: f32[D, D],
        #[name = "encoder.layer.{}.attention.self.value.bias"] value_bias: f32[D],
        #[name = "encoder.layer.{}.attention.output.dense.weight"] output: f32[D, D],
        #[name = "encoder.layer.{}.attention.output.dense.bias"] output_bias: f32[D],
        #[name = "encoder.layer.{}.attention.output.LayerNorm.weight"] attention_norm: f32[D],
        #[name = "encoder.layer.{}.attention.output.LayerNorm.bias"] attention_norm_bias: f32[D],
        #[name = "encoder.layer.{}.intermediate.dense.weight"] widen: f32[F, D],
        #[name = "encoder.layer.{}.intermediate.dense.bias"] widen_bias: f32[F],
        #[name = "encoder.layer.{}.output.dense.weight"] narrow: f32[D, F],
        #[name = "encoder.layer.{}.output.dense.bias"] narrow_bias: f32[D],
        #[name = "encoder.layer.{}.output.LayerNorm.weight"] norm: f32[D],
        #[name = "encoder.layer.{}.output.LayerNorm.bias"] norm_bias: f32[D],
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

    /// Token, position and segment (always the first), normalised.
    pub fn embed<dim B, dim S, dim V, dim P, dim D>(ids: u32[B, S], w: Embeddings<V, P, D>) -> f32[B, S, D]
        where S <= P
    {
        let sum_of_three[b, s, d] = w.word[ids[b, s], d] + w.position[0 + s, d] + w.segment[0, d];
        let x = layer_norm(sum_of_three, w.norm, w.norm_bias);
        x
    }

    /// One encoder layer; positions whose mask is false are attended to by none.
    pub fn layer<dim B, dim S, dim D, dim F>(x: f32[B, S, D], mask: bool[B, S], w: Layer<D, F>) -> f32[B, S, D]
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
        z
    }

    /// The unit vector of each sentence, and the hidden states it is the mean of.
    pub fn minilm<dim B, dim S>(
        ids: u32[B, S],
        mask: bool[B, S],
        #[weight] embeddings: Embeddings<VOCABULARY, POSITIONS, HIDDEN>,
        #[weight] layers: [Layer<HIDDEN, INTERMEDIATE>; LAYERS],
    ) -> (f32[B, HIDDEN], f32[B, S, HIDDEN])
        where S <= POSITIONS
    {
        let mut hidden = embed(ids, embeddings);
        for w in layers {
            hidden = layer(hidden, mask, w);
        }
        let pooled[b, d] = mean[s where mask[b, s]] hidden[b, s, d];
        let square[b] = sum[d] sq(pooled[b, d]);
        let vectors[b, d] = pooled[b, d] * rsqrt(max(square[b], 1e-24));
        (vectors, hidden)
    }
}
