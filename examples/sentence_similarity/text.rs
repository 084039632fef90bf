//! Sentences to token ids, by the tokenizer file that comes with the model.

use std::path::{Path, PathBuf};

use tokenizers::{PaddingParams, PaddingStrategy, Tokenizer, TruncationParams};

/// Why sentences cannot be made into an input of the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The tokenizer file is missing or malformed.
    #[error("the tokenizer {} cannot be read", path.display())]
    Tokenizer {
        /// Its path.
        path: PathBuf,
        /// What the tokenizer crate says.
        #[source]
        source: tokenizers::Error,
    },
    /// The tokenizer refuses the sentences.
    #[error("the sentences cannot be encoded")]
    Encode(#[source] tokenizers::Error),
    /// No sentence was given.
    #[error("there are no sentences")]
    Empty,
}

/// Inputs of equal length, row-major: what the model reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Token ids, `[PAD]` after the end of a row.
    pub ids: Vec<u32>,
    /// True where a token is real.
    pub mask: Vec<bool>,
    /// Sentences, positions.
    pub shape: (usize, usize),
}

/// A tokenizer that pads to the longest sentence and cuts at the model's length.
pub struct Text {
    tokenizer: Tokenizer,
}

impl Text {
    /// Reads a `tokenizer.json`; longer sentences are cut to `limit` positions.
    ///
    /// # Errors
    /// [`TextError::Tokenizer`].
    pub fn open(path: &Path, limit: usize) -> Result<Self, TextError> {
        let fault = |source| TextError::Tokenizer {
            path: path.to_owned(),
            source,
        };
        let mut tokenizer = Tokenizer::from_file(path).map_err(fault)?;
        let truncation = TruncationParams {
            max_length: limit,
            ..TruncationParams::default()
        };
        tokenizer.with_truncation(Some(truncation)).map_err(fault)?;
        let padding = PaddingParams {
            strategy: PaddingStrategy::BatchLongest,
            ..PaddingParams::default()
        };
        tokenizer.with_padding(Some(padding));
        Ok(Self { tokenizer })
    }

    /// Encodes sentences, with `[CLS]` and `[SEP]`.
    ///
    /// # Errors
    /// No sentences, or the tokenizer refuses one.
    pub fn encode(&self, sentences: &[&str]) -> Result<Batch, TextError> {
        let encodings = self
            .tokenizer
            .encode_batch(sentences.to_vec(), true)
            .map_err(TextError::Encode)?;
        let columns = encodings.first().ok_or(TextError::Empty)?.len();
        let ids = encodings
            .iter()
            .flat_map(|e| e.get_ids())
            .copied()
            .collect();
        let mask = encodings
            .iter()
            .flat_map(|e| e.get_attention_mask())
            .map(|&m| m == 1)
            .collect();
        Ok(Batch {
            ids,
            mask,
            shape: (sentences.len(), columns),
        })
    }
}
