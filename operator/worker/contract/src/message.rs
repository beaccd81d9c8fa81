//! Termination messages: what a Job's last container says.
//!
//! The kubelet keeps 4,096 bytes of a container's message. All containers of a pod, init containers included, have
//! 12,288 in equal shares (`normalizeStatus` in `pkg/kubelet/status/status_manager.go`). A pod of five containers has
//! 2,457 each, and what is longer is cut without notice. [`message_budget`] gives the figure.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::{Digest, FailureClass, NotMeasured, ProfileEnd, QualityResult, Row, SweepResult};

/// The only message format so far.
pub const MESSAGE_FORMAT_VERSION: u32 = 1;

/// What a Job's last container reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all_fields = "camelCase")]
pub enum Message {
    /// The task is done.
    Succeeded {
        /// Its result.
        result: Outcome,
    },
    /// The task failed.
    Failed {
        /// Whether another attempt can help.
        class: FailureClass,
        /// In words: what failed, what was found, what to do.
        text: String,
    },
}

/// The result of each verb.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum Outcome {
    /// Of `resolve`.
    Resolve(ResolveResult),
    /// Of `fetch`.
    Fetch(FetchResult),
    /// Of `finish-build`.
    Build(BuildResult),
    /// Of `quality`.
    Quality(QualityResult),
    /// Of `materialize`.
    Materialize(MaterializeResult),
    /// Of `profile`.
    Profile(ProfileResult),
    /// Of `sweep`.
    Sweep(SweepResult),
}

/// What a model URI stood for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolveResult {
    /// The URI with its revision pinned, for [`crate::FetchTask::uri`].
    pub uri: String,
    /// The commit, where the source has commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// SHA-256 over the sorted list of files, sizes and digests.
    pub source_digest: Digest,
    /// The same over the tokenizer's files; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer_digest: Option<Digest>,
    /// Files of the source.
    pub files: u32,
    /// Their bytes.
    pub bytes: u64,
    /// What `config.json` says; absent only where [`crate::ShapeNeed::Optional`] allowed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Box<ModelShape>>,
}

/// The shape of a transformer, for checks and the memory model before GPU time is spent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelShape {
    /// The first of `architectures`, as in `LlamaForCausalLM`.
    pub architecture: String,
    /// `hidden_size`.
    pub hidden_size: u32,
    /// `num_hidden_layers`.
    pub layers: u32,
    /// `num_attention_heads`.
    pub heads: u32,
    /// `num_key_value_heads`; equal to the heads where absent.
    pub key_value_heads: u32,
    /// `head_dim`; hidden size / heads where absent.
    pub head_dim: u32,
    /// `intermediate_size`, or `moe_intermediate_size` with a mixture: width of an expert's or the only MLP; absent
    /// where the model names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intermediate_size: Option<u32>,
    /// `num_local_experts`, `num_experts` or `n_routed_experts`; absent without a mixture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experts: Option<u32>,
    /// `num_experts_per_tok`; absent without a mixture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experts_per_token: Option<u32>,
    /// Layers of a mixture that have one MLP in place of experts; 0 without.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dense_layers: u32,
    /// Width of these layers' MLP; 0 without.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dense_intermediate_size: u32,
    /// Width of the experts that every token visits, together; 0 without.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub shared_intermediate_size: u32,
    /// `kv_lora_rank` + `qk_rope_head_dim`: what latent attention keeps of a token in a layer; 0 without.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub latent_size: u32,
    /// `tie_word_embeddings`: whether the output layer is the embedding.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tied_embeddings: bool,
    /// `vocab_size`.
    pub vocabulary: u32,
    /// `max_position_embeddings`, scaled as `rope_scaling` says; absent where the model has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_positions: Option<u32>,
    /// `torch_dtype` or `dtype`, else that of the largest share of the parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    /// How `quantization_config` says that the weights are quantized: the API's word for the precision, or the method's
    /// own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantization: Option<String>,
    /// Who quantized them, by `quant_method`, where the precision has a name of the API; absent if they are not
    /// quantized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantization_method: Option<String>,
    /// Parameters that are loaded, from the safetensors headers; 0 if the weights have another format.
    pub parameters: u64,
    /// Their bytes; the weight files' size if they have another format.
    pub parameter_bytes: u64,
}

/// What `fetch` put into the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FetchResult {
    /// The source, as asked for.
    pub source_digest: Digest,
    /// Files of the checkpoint.
    pub files: u32,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that this attempt transferred; the rest was there.
    pub transferred_bytes: u64,
    /// Milliseconds.
    pub millis: u64,
}

/// What `finish-build` published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildResult {
    /// SHA-256 of the manifest's bytes.
    pub manifest_digest: Digest,
    /// Files of the artifact.
    pub files: u32,
    /// Their bytes.
    pub bytes: u64,
    /// Step to milliseconds: the builder's own, then `check`, `hash`, `publish`.
    pub durations_millis: BTreeMap<String, u64>,
    /// Tool to version, as the builder reported.
    pub versions: BTreeMap<String, String>,
    /// Present if the task asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<QualityResult>,
}

/// What `materialize` prepared for Triton.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MaterializeResult {
    /// SHA-256 of the manifest's bytes, as asked for.
    pub manifest_digest: Digest,
    /// Bytes of the artifact.
    pub bytes: u64,
    /// Bytes copied and verified now; 0 if the verified marker of an earlier start was trusted.
    pub verified_bytes: u64,
    /// Milliseconds.
    pub millis: u64,
}

/// What `profile` measured, compactly: a repetition for an operator that missed the last progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProfileResult {
    /// [`crate::ProfileTask::input_hash`].
    pub input_hash: String,
    /// The newest rows that fit; the operator has polled the older ones, or measures them again.
    pub rows: Vec<Row>,
    /// Older rows left out.
    pub omitted_rows: u32,
    /// GPU time used by the Job, in milliseconds.
    pub gpu_millis: u64,
    /// What ended the campaign.
    pub end: ProfileEnd,
    /// The same in words.
    pub reason: String,
    /// [`crate::Progress::not_measured`], or the last of it that fits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_measured: Vec<NotMeasured>,
    /// Entries of it left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_not_measured: u32,
}

/// Says that a message's data does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodeError {
    bytes: usize,
    limit: usize,
}

/// Says why a termination message cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// The container ended without writing one.
    Empty,
    /// No JSON of this shape.
    Syntax {
        /// The parser's words.
        reason: String,
        /// How the text begins.
        start: String,
    },
    /// Written by a newer worker.
    FormatVersion(u32),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<M> {
    format_version: u32,
    #[serde(flatten)]
    message: M,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    format_version: u32,
}

/// Returns how many bytes of a termination message survive in a pod with so many containers, init containers included.
pub fn message_budget(containers: usize) -> usize {
    const PER_CONTAINER: usize = 4_096;
    const PER_POD: usize = 12_288;
    PER_CONTAINER.min(PER_POD / containers.max(1))
}

impl Message {
    /// Writes the message in at most `limit` bytes. Human text is cut first. Then what a profile did not measure and
    /// its oldest rows are counted instead of listed. Other data is never cut.
    ///
    /// # Errors
    /// [`EncodeError`] if the data alone is larger.
    pub fn encode(&self, limit: usize) -> Result<Vec<u8>, EncodeError> {
        let mut message = self.clone();
        loop {
            let bytes = serde_json::to_vec(&Envelope { format_version: MESSAGE_FORMAT_VERSION, message: &message })
                .expect("a message is plain data with text keys");
            let Some(over) = bytes.len().checked_sub(limit).filter(|over| *over > 0) else { return Ok(bytes) };
            if !message.cut(over) {
                return Err(EncodeError { bytes: bytes.len(), limit });
            }
        }
    }

    /// Parses what [`Message::encode`] wrote.
    ///
    /// # Errors
    /// [`ParseError`], which tells an empty message (the container was killed) from one that cannot be read.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        if text.trim().is_empty() {
            return Err(ParseError::Empty);
        }
        let syntax = |e: serde_json::Error| ParseError::Syntax {
            reason: e.to_string(),
            start: text.chars().take(200).collect(),
        };
        let version: Version = serde_json::from_str(text).map_err(syntax)?;
        if version.format_version != MESSAGE_FORMAT_VERSION {
            return Err(ParseError::FormatVersion(version.format_version));
        }
        serde_json::from_str::<Envelope<Self>>(text).map(|e| e.message).map_err(syntax)
    }

    /// Removes about `over` bytes of what may be removed; says whether there was any.
    fn cut(&mut self, over: usize) -> bool {
        match self {
            Self::Failed { text, .. } => shorten(text, over),
            Self::Succeeded { result } => match result {
                Outcome::Profile(profile) => profile.cut(over),
                Outcome::Resolve(_)
                | Outcome::Fetch(_)
                | Outcome::Build(_)
                | Outcome::Quality(_)
                | Outcome::Materialize(_)
                | Outcome::Sweep(_) => false,
            },
        }
    }
}

impl ProfileResult {
    fn cut(&mut self, over: usize) -> bool {
        let longest = self.rows.iter_mut().map(|row| &mut row.reason).max_by_key(|reason| reason.len());
        if longest.is_some_and(|reason| reason.chars().count() > 1 && shorten(reason, over)) {
            return true;
        }
        if self.reason.chars().count() > 1 && shorten(&mut self.reason, over) {
            return true;
        }
        // Rows cost GPU time; why something has none can be said again.
        if !self.not_measured.is_empty() {
            self.not_measured.remove(0);
            self.omitted_not_measured += 1;
            return true;
        }
        if self.rows.is_empty() {
            return false;
        }
        self.rows.remove(0);
        self.omitted_rows += 1;
        true
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Cuts characters off the text's end until its JSON is at least `over` bytes shorter, and marks the cut; says whether
/// there was anything to cut.
pub(crate) fn shorten(text: &mut String, over: usize) -> bool {
    const MARK: char = '…';
    if text.is_empty() {
        return false;
    }
    let mut removed = 0;
    while removed < over + MARK.len_utf8() {
        match text.pop() {
            Some(last) => removed += json_bytes(last),
            None => return true,
        }
    }
    text.push(MARK);
    true
}

/// Counts the bytes of a character inside a JSON string, as serde_json escapes it.
fn json_bytes(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => c.len_utf8(),
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the termination message has {} bytes of data; this pod keeps {}", self.bytes, self.limit)
    }
}

impl std::error::Error for EncodeError {}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the container ended without a termination message: it was killed"),
            Self::Syntax { reason, start } => {
                write!(f, "the termination message is not understood ({reason}); it begins {start:?}")
            }
            Self::FormatVersion(found) => write!(
                f,
                "the termination message has formatVersion {found}; this operator reads {MESSAGE_FORMAT_VERSION}"
            ),
        }
    }
}

impl std::error::Error for ParseError {}

#[cfg(test)]
mod tests;
