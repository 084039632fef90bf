//! Reaction SMILES to token ids and back: the regular expression of rxnmapper's
//! `SmilesTokenizer`, written out, and its vocabulary.

use std::collections::HashMap;

/// A piece of the reaction string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// What stands there.
    pub text: &'a str,
    /// Byte offset in the string it was cut from.
    pub at: usize,
}

/// Why a text or a list of ids is not an input of the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// A character that begins no token.
    #[error("`{found}` at byte {at} begins no SMILES token")]
    UnknownCharacter {
        /// Byte offset in the text.
        at: usize,
        /// The character.
        found: char,
    },
    /// The vocabulary lacks a token that the encoding itself needs.
    #[error("the vocabulary has no `{token}`")]
    MissingSpecial {
        /// The special token.
        token: &'static str,
    },
    /// The vocabulary lists a token twice, so that an id would be lost.
    #[error("the vocabulary lists `{token}` twice, lines {first} and {second}")]
    DuplicateToken {
        /// The token.
        token: String,
        /// Its first line, from 0.
        first: usize,
        /// Its second line, from 0.
        second: usize,
    },
    /// An id past the end of the vocabulary.
    #[error("token id {id} is outside the vocabulary of {size}")]
    UnknownId {
        /// The id.
        id: u32,
        /// Number of tokens in the vocabulary.
        size: usize,
    },
    /// A list of ids that is not one of whole numbers.
    #[error("`{found}` is not a token id")]
    NotAnId {
        /// The offending piece.
        found: String,
    },
    /// No row, or no token in a row.
    #[error("input {row} has no tokens")]
    Empty {
        /// Its number, from 0.
        row: usize,
    },
    /// More tokens than the model has positions.
    #[error("input {row} has {tokens} tokens, the model takes at most {limit}")]
    TooLong {
        /// Its number, from 0.
        row: usize,
        /// Its tokens, specials included.
        tokens: usize,
        /// The model's positions.
        limit: usize,
    },
}

/// Cuts a SMILES or reaction SMILES into tokens; together they are the whole text.
///
/// # Errors
/// [`TokenError::UnknownCharacter`] where no token begins.
pub fn split(text: &str) -> Result<Vec<Token<'_>>, TokenError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(found) = text[at..].chars().next() {
        let length = token_length(&text[at..]).ok_or(TokenError::UnknownCharacter { at, found })?;
        tokens.push(Token {
            text: &text[at..at + length],
            at,
        });
        at += length;
    }
    Ok(tokens)
}

/// Bytes of the token at the start of `rest`:
/// `\[[^\]]+]|Br?|Cl?|[NOSPFIbcnosp()\.=#\-+\\/:~@?*$0-9]|>>?|%[0-9]{2}`.
fn token_length(rest: &str) -> Option<usize> {
    let bytes = rest.as_bytes();
    let followed_by = |next: u8| if bytes.get(1) == Some(&next) { 2 } else { 1 };
    match bytes[0] {
        b'[' => match rest[1..].find(']') {
            None | Some(0) => None,
            Some(inside) => Some(inside + 2),
        },
        b'B' => Some(followed_by(b'r')),
        b'C' => Some(followed_by(b'l')),
        b'>' => Some(followed_by(b'>')),
        b'%' => {
            let digits = bytes.get(1..3)?;
            digits.iter().all(u8::is_ascii_digit).then_some(3)
        }
        b'N' | b'O' | b'S' | b'P' | b'F' | b'I' => Some(1),
        b'b' | b'c' | b'n' | b'o' | b's' | b'p' => Some(1),
        b'(' | b')' | b'.' | b'=' | b'#' | b'-' | b'+' | b'\\' | b'/' | b':' | b'~' => Some(1),
        b'@' | b'?' | b'*' | b'$' | b'0'..=b'9' => Some(1),
        _ => None,
    }
}

/// Token ids of one input, `[CLS]` and `[SEP]` included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// The text between the special tokens.
    pub text: String,
    /// One id per token.
    pub ids: Vec<u32>,
}

/// Inputs of equal length, row-major: what the model reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Token ids, `[PAD]` after the end of a row.
    pub ids: Vec<u32>,
    /// True where a token is real.
    pub mask: Vec<bool>,
    /// Inputs, positions.
    pub shape: (usize, usize),
}

/// The tokens a model knows; a token's id is its line in the file.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    tokens: Vec<String>,
    ids: HashMap<String, u32>,
    pad: u32,
    unknown: u32,
    start: u32,
    end: u32,
    mask: u32,
}

impl Vocabulary {
    /// Reads a vocabulary file: one token a line.
    ///
    /// # Errors
    /// A special token is missing, or a token is listed twice.
    pub fn parse(file: &str) -> Result<Self, TokenError> {
        let tokens: Vec<String> = file.lines().map(str::to_owned).collect();
        let mut ids: HashMap<String, u32> = HashMap::with_capacity(tokens.len());
        for (token, id) in tokens.iter().zip(0..) {
            if let Some(first) = ids.insert(token.clone(), id) {
                return Err(TokenError::DuplicateToken {
                    token: token.clone(),
                    first: first as usize,
                    second: id as usize,
                });
            }
        }
        let special = |token| {
            ids.get(token)
                .copied()
                .ok_or(TokenError::MissingSpecial { token })
        };
        Ok(Self {
            pad: special("[PAD]")?,
            unknown: special("[UNK]")?,
            start: special("[CLS]")?,
            end: special("[SEP]")?,
            mask: special("[MASK]")?,
            tokens,
            ids,
        })
    }

    /// The id of `[MASK]`.
    pub fn mask(&self) -> u32 {
        self.mask
    }

    /// The token of an id.
    pub fn token(&self, id: u32) -> Option<&str> {
        self.tokens.get(id as usize).map(String::as_str)
    }

    /// Encodes a reaction string; tokens that the vocabulary lacks become `[UNK]`.
    ///
    /// # Errors
    /// [`TokenError::UnknownCharacter`].
    pub fn encode(&self, text: &str) -> Result<Encoding, TokenError> {
        let known = |token: &Token| self.ids.get(token.text).copied().unwrap_or(self.unknown);
        let mut ids = vec![self.start];
        ids.extend(split(text)?.iter().map(known));
        ids.push(self.end);
        Ok(Encoding {
            text: text.to_owned(),
            ids,
        })
    }

    /// The input whose ids are given; `[CLS]`, `[SEP]` and trailing `[PAD]` may be left out.
    ///
    /// # Errors
    /// [`TokenError::UnknownId`].
    pub fn decode(&self, ids: &[u32]) -> Result<Encoding, TokenError> {
        let end = ids
            .iter()
            .rposition(|&id| id != self.pad)
            .map_or(0, |last| last + 1);
        let ids = ids[..end]
            .strip_prefix(&[self.start])
            .unwrap_or(&ids[..end]);
        let ids = ids.strip_suffix(&[self.end]).unwrap_or(ids);
        let mut text = String::new();
        for &id in ids {
            let unknown = TokenError::UnknownId {
                id,
                size: self.tokens.len(),
            };
            text.push_str(self.token(id).ok_or(unknown)?);
        }
        let framed = [&[self.start], ids, &[self.end]].concat();
        Ok(Encoding { text, ids: framed })
    }

    /// Reads what a user typed: whole numbers between commas or blanks are token ids, anything
    /// else is a reaction string. (No reaction consists of digits: it has a `>`.)
    ///
    /// # Errors
    /// As [`Self::encode`] and [`Self::decode`]; [`TokenError::NotAnId`] for a number too large.
    pub fn read(&self, typed: &str) -> Result<Encoding, TokenError> {
        let separator = |c: char| c == ',' || c.is_whitespace();
        if !typed.chars().all(|c| c.is_ascii_digit() || separator(c)) {
            return self.encode(typed.trim());
        }
        let id = |piece: &str| {
            piece.parse().map_err(|_| TokenError::NotAnId {
                found: piece.to_owned(),
            })
        };
        let pieces = typed.split(separator).filter(|piece| !piece.is_empty());
        self.decode(&pieces.map(id).collect::<Result<Vec<u32>, _>>()?)
    }

    /// Pads inputs to the length of the longest.
    ///
    /// # Errors
    /// [`TokenError::Empty`] without inputs or for one without tokens;
    /// [`TokenError::TooLong`] past `limit` positions.
    pub fn batch(&self, inputs: &[Encoding], limit: usize) -> Result<Batch, TokenError> {
        let columns = inputs.iter().map(|input| input.ids.len()).max();
        let columns = columns.ok_or(TokenError::Empty { row: 0 })?;
        let mut batch = Batch {
            ids: Vec::new(),
            mask: Vec::new(),
            shape: (inputs.len(), columns),
        };
        for (row, input) in inputs.iter().enumerate() {
            let tokens = input.ids.len();
            if input.text.is_empty() {
                return Err(TokenError::Empty { row });
            }
            if tokens > limit {
                return Err(TokenError::TooLong { row, tokens, limit });
            }
            batch.ids.extend(&input.ids);
            batch
                .ids
                .extend(std::iter::repeat_n(self.pad, columns - tokens));
            batch
                .mask
                .extend((0..columns).map(|position| position < tokens));
        }
        Ok(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TINY: &str = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nC\nO\n>>\n[nH]\n";

    fn pieces(text: &str) -> Vec<&str> {
        split(text)
            .unwrap()
            .iter()
            .map(|token| token.text)
            .collect()
    }

    fn vocabulary() -> Vocabulary {
        Vocabulary::parse(TINY).unwrap()
    }

    #[test]
    fn two_letter_elements_brackets_arrows_and_ring_numbers_stay_whole() {
        assert_eq!(
            pieces("[nH]1BrCCl>>B%12>Sc"),
            [
                "[nH]", "1", "Br", "C", "Cl", ">>", "B", "%12", ">", "S", "c"
            ]
        );
    }

    #[test]
    fn offsets_are_bytes_of_the_text() {
        assert_eq!(split("ClC").unwrap()[1], Token { text: "C", at: 2 });
    }

    #[test]
    fn what_begins_no_token_is_named() {
        for (text, at, found) in [
            ("CXC", 1, 'X'),
            ("C%1", 1, '%'),
            ("C[]C", 1, '['),
            ("[C", 0, '['),
            ("Cé", 1, 'é'),
        ] {
            assert_eq!(
                split(text),
                Err(TokenError::UnknownCharacter { at, found }),
                "{text}"
            );
        }
    }

    #[test]
    fn encoding_frames_and_unknown_tokens_get_their_id() {
        assert_eq!(
            vocabulary().encode("CN>>[MASK]").unwrap().ids,
            [2, 5, 1, 7, 4, 3]
        );
    }

    #[test]
    fn decoding_accepts_framed_padded_and_bare_ids() {
        let v = vocabulary();
        let want = v.encode("CO>>C").unwrap();
        assert_eq!(v.decode(&[2, 5, 6, 7, 5, 3, 0, 0]), Ok(want.clone()));
        assert_eq!(v.read("5, 6,7 5"), Ok(want));
        assert_eq!(
            v.decode(&[9]),
            Err(TokenError::UnknownId { id: 9, size: 9 })
        );
        assert_eq!(v.decode(&[]).unwrap().ids, [2, 3]);
        let huge = "99999999999";
        assert_eq!(
            v.read(huge),
            Err(TokenError::NotAnId { found: huge.into() })
        );
    }

    #[test]
    fn rows_are_padded_and_limits_are_errors() {
        let v = vocabulary();
        let rows = [v.encode("C").unwrap(), v.encode("CO").unwrap()];
        let batch = v.batch(&rows, 4).unwrap();
        assert_eq!(batch.ids, [2, 5, 3, 0, 2, 5, 6, 3]);
        assert_eq!(
            batch.mask,
            [true, true, true, false, true, true, true, true]
        );
        assert_eq!(batch.shape, (2, 4));
        assert_eq!(
            v.batch(&rows, 3),
            Err(TokenError::TooLong {
                row: 1,
                tokens: 4,
                limit: 3
            })
        );
        assert_eq!(v.batch(&[], 3), Err(TokenError::Empty { row: 0 }));
        let empty = v.encode("").unwrap();
        assert_eq!(v.batch(&[empty], 3), Err(TokenError::Empty { row: 0 }));
    }

    #[test]
    fn a_broken_vocabulary_is_refused() {
        let missing = Vocabulary::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\n").unwrap_err();
        assert_eq!(missing, TokenError::MissingSpecial { token: "[MASK]" });
        let twice = Vocabulary::parse("[PAD]\nC\nC\n").unwrap_err();
        assert_eq!(
            twice,
            TokenError::DuplicateToken {
                token: "C".into(),
                first: 1,
                second: 2
            }
        );
    }
}
