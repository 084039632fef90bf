//! What the model believes stands at masked places.

/// A token and its logit.
pub type Candidate = (u32, f32);

/// The likeliest tokens at one masked position.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Position in the model's input, `[CLS]` being 0.
    pub position: usize,
    /// Likeliest first; of equals, the lower id.
    pub candidates: Vec<Candidate>,
}

/// The `count` likeliest tokens at each position of `ids` that holds `mask`. `logits` holds a row
/// of `vocabulary` logits per position, those of `ids` first.
pub fn predict(
    ids: &[u32],
    mask: u32,
    logits: &[f32],
    vocabulary: usize,
    count: usize,
) -> Vec<Prediction> {
    let rows = logits.chunks_exact(vocabulary).zip(ids).enumerate();
    let masked = rows.filter(|(_, (_, id))| **id == mask);
    masked
        .map(|(position, (row, _))| Prediction {
            position,
            candidates: top(row, count),
        })
        .collect()
}

fn top(row: &[f32], count: usize) -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> = (0..).zip(row.iter().copied()).collect();
    candidates.sort_by(|a, b| b.1.total_cmp(&a.1));
    candidates.truncate(count);
    candidates
}

/// The input with each masked token replaced by the likeliest.
pub fn fill(ids: &[u32], predictions: &[Prediction]) -> Vec<u32> {
    let mut filled = ids.to_vec();
    for prediction in predictions {
        if let Some(&(token, _)) = prediction.candidates.first() {
            filled[prediction.position] = token;
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASK: u32 = 2;

    #[test]
    fn masked_positions_get_their_likeliest_tokens() {
        let logits = [9.0, 0.0, 0.0, 1.0, 3.0, 3.0, 0.0, -1.0, 5.0, 7.0, 7.0, 7.0];
        let predictions = predict(&[0, MASK, MASK], MASK, &logits, 3, 2);
        let want = [(1, vec![(1, 3.0), (2, 3.0)]), (2, vec![(2, 5.0), (0, 0.0)])];
        let want = want.map(|(position, candidates)| Prediction {
            position,
            candidates,
        });
        assert_eq!(predictions, want);
        assert_eq!(fill(&[0, MASK, MASK], &predictions), [0, 1, 2]);
    }

    #[test]
    fn without_masks_there_is_nothing_to_predict() {
        assert_eq!(predict(&[0, 1], MASK, &[0.0; 6], 3, 5), []);
        assert_eq!(fill(&[0, 1], &[]), [0, 1]);
    }
}
