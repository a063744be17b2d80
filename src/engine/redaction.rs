//! Which rules redact what: those of the server and of the operator everywhere, those of an agent for
//! what its runs append and for what its model is sent.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use secrecy::SecretString;
use sha2::{Digest as _, Sha256};

use super::Context;
use crate::domain::id::{RunId, TenantId, ThreadId};
use crate::domain::redaction::{RedactionChannel, RedactionRule};
use crate::domain::run::Run;
use crate::domain::secret::SecretName;
use crate::domain::step::{InputPart, Step, StepContent, TaskStep};
use crate::error::AgentlingError;
use crate::render::redact::{PlaceholderKey, RuleSet, Rules};
use crate::store::redaction;
use crate::tools::mask::Mask;

pub use crate::render::redact::Redactor;

/// The rules that hold for everyone, and what numbers the placeholders.
#[derive(Clone)]
pub struct Redaction {
    secret: [u8; 32],
    /// The operator's rules, and the values that they name.
    rules: (RuleSet, RuleSet),
    /// Those values and the credentials of the server: they get out on no way.
    secrets: RuleSet,
    /// They are not even written down.
    credentials: RuleSet,
    /// For texts that belong to no thread.
    server: Arc<Rules>,
    /// For what tools of others say.
    outside: Arc<Rules>,
    /// For what models say.
    mask: Mask,
    ready: Arc<Mutex<Ready>>,
}

/// Rules that are ready, by the hash of those of their agent, with the time of their last use.
#[derive(Default)]
struct Ready {
    uses: u64,
    by_hash: BTreeMap<[u8; 32], (u64, Arc<Rules>)>,
}

/// The most agents whose rules are kept ready.
const MAX_READY: usize = 64;

impl std::fmt::Debug for Redaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redaction").field("rules", &self.rules.0).finish_non_exhaustive()
    }
}

impl Redaction {
    /// The operator's rules and the credentials of the server, under a secret that all replicas share.
    pub fn new<'s>(
        secret: [u8; 32],
        rules: &[RedactionRule],
        credentials: impl IntoIterator<Item = &'s str>,
    ) -> Self {
        let values = rules.iter().filter_map(|rule| match rule {
            RedactionRule::Value(rule) => Some(rule.value.as_str()),
            RedactionRule::Pattern(_) | RedactionRule::Field(_) => None,
        });
        let values = RuleSet::secrets(values);
        Self::of(secret, (RuleSet::of(rules), values), RuleSet::secrets(credentials))
    }

    fn of(secret: [u8; 32], (operator, values): (RuleSet, RuleSet), credentials: RuleSet) -> Self {
        let shapes = RuleSet::shapes();
        let secrets = values.clone().and(&credentials);
        let server = Arc::new(Rules::of([&operator, &secrets, &shapes]));
        let outside = Arc::new(Rules::of([&credentials, &shapes]));
        let mask = Mask::by([&credentials], PlaceholderKey::of(&secret, ""));
        let (rules, ready) = ((operator, values), Arc::default());
        Self { secret, rules, secrets, credentials, server, outside, mask, ready }
    }

    /// The same with one more credential of the server.
    #[must_use]
    pub(super) fn knowing(&self, value: &str) -> Self {
        let credentials = RuleSet::secrets([value]).and(&self.credentials);
        Self::of(self.secret, self.rules.clone(), credentials)
    }

    /// A redactor of a thread's texts, by the rules of an agent too.
    pub fn of_thread(&self, thread: ThreadId, agent: &[RedactionRule]) -> Redactor {
        self.redactor(&thread.to_string(), agent)
    }

    /// A redactor of texts that belong to no thread yet, by the rules of an agent too.
    pub fn of_no_thread(&self, agent: &[RedactionRule]) -> Redactor {
        self.redactor("", agent)
    }

    /// A redactor of texts that belong to no thread, which are problems, the log and traces. What looks
    /// like a credential goes too, whoever's it is.
    pub fn of_server(&self) -> Redactor {
        Redactor::of(&self.server, PlaceholderKey::of(&self.secret, ""))
    }

    /// A redactor of what tools of others say, before it is written down: it takes out the secrets of the
    /// server and what looks like a credential. What the rules of the operator name stays stored.
    pub fn of_outside(&self) -> Redactor {
        Redactor::of(&self.outside, PlaceholderKey::of(&self.secret, ""))
    }

    /// What takes the secrets of the server out of whatever a model says, and those of the call.
    pub(super) fn mask(&self, own: Option<(&SecretName, &SecretString)>) -> Mask {
        let Some(own) = own else { return self.mask.clone() };
        Mask::by([&Mask::rules(own), &self.credentials], PlaceholderKey::of(&self.secret, ""))
    }

    /// Bytes that came from elsewhere without the secrets of the server; `None` where there are none in
    /// them.
    pub(super) fn masked(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let redactor = Redactor::new([&self.secrets], PlaceholderKey::of(&self.secret, ""));
        match redactor.bytes(RedactionChannel::Log, bytes) {
            Cow::Borrowed(_) => None,
            Cow::Owned(masked) => Some(masked),
        }
    }

    fn redactor(&self, scope: &str, agent: &[RedactionRule]) -> Redactor {
        Redactor::of(&self.rules(agent), PlaceholderKey::of(&self.secret, scope))
    }

    /// Making rules ready takes longer than most texts that they are looked for in.
    fn rules(&self, agent: &[RedactionRule]) -> Arc<Rules> {
        let hash = Sha256::digest(serde_json::to_vec(agent).unwrap_or_default()).into();
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.uses += 1;
        let used = ready.uses;
        if let Some((last, rules)) = ready.by_hash.get_mut(&hash) {
            *last = used;
            return Arc::clone(rules);
        }
        // A rule that someone wrote has a name that says more than that of the server.
        let rules = Arc::new(Rules::of([&RuleSet::of(agent), &self.rules.0, &self.secrets]));
        let oldest = ready.by_hash.iter().min_by_key(|(_, (last, _))| *last).map(|(hash, _)| *hash);
        if let Some(oldest) = oldest.filter(|_| ready.by_hash.len() >= MAX_READY) {
            ready.by_hash.remove(&oldest);
        }
        ready.by_hash.insert(hash, (used, Arc::clone(&rules)));
        rules
    }
}

/// What the log is told of a text.
pub(super) fn logged(redactor: &Arc<Redactor>) -> impl Fn(&str) -> String + Send + Sync + 'static {
    let redactor = Arc::clone(redactor);
    move |text| redactor.text(RedactionChannel::Log, text).into_owned()
}

/// Where a text stands: its thread, and the run that appended it; `None` for loaded memory and for what
/// an operator wrote.
pub type Place = (ThreadId, Option<RunId>);

/// Redacts what some runs appended, each by its own rules.
#[derive(Debug)]
pub struct Redactors {
    channel: RedactionChannel,
    by_place: BTreeMap<Place, Redactor>,
    /// For a place that was not announced.
    server: Redactor,
}

impl Redactors {
    pub(super) fn of(&self, place: Place) -> &Redactor {
        self.by_place.get(&place).unwrap_or(&self.server)
    }

    /// A step.
    #[must_use]
    pub fn step(&self, mut step: Step) -> Step {
        step.content =
            self.of((step.thread_id, step.run_id)).step(self.channel, &step.content).into_owned();
        step
    }

    /// A run: its answer, why it failed, and its labels.
    #[must_use]
    pub fn run(&self, mut run: Run) -> Run {
        let redactor = self.of((run.thread_id, Some(run.id)));
        redactor.facts(self.channel, &mut run.facts);
        run.metadata = redactor.labels(self.channel, &run.metadata);
        run
    }

    /// A text of a run.
    #[must_use]
    pub fn text(&self, place: Place, text: &str) -> String {
        self.of(place).text(self.channel, text).into_owned()
    }

    /// The labels of a thread.
    #[must_use]
    pub fn labels(&self, labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        self.server.labels(self.channel, labels)
    }

    /// What a run was asked.
    #[must_use]
    pub fn input(&self, run: &Run, parts: Vec<InputPart>) -> Vec<InputPart> {
        let task = StepContent::Task(TaskStep { parts });
        match self.of((run.thread_id, Some(run.id))).step(self.channel, &task).into_owned() {
            StepContent::Task(task) => task.parts,
            _ => Vec::new(),
        }
    }
}

/// Redactors for a channel of what stands in some places. The rules are read at once, however many
/// places there are.
pub(super) async fn redactors(
    context: &Context,
    tenant: &TenantId,
    channel: RedactionChannel,
    places: BTreeSet<Place>,
) -> Result<Redactors, AgentlingError> {
    let runs: Vec<RunId> = places.iter().filter_map(|(_, run)| *run).collect();
    let rules = redaction::rules(context.store(), tenant, &runs).await?;
    let redactor = |(thread, run): Place| {
        let rules = run.and_then(|run| rules.get(&run)).map_or(&[][..], Vec::as_slice);
        ((thread, run), context.parts.redaction.of_thread(thread, rules))
    };
    let by_place = places.into_iter().map(redactor).collect();
    Ok(Redactors { channel, by_place, server: context.parts.redaction.of_server() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::redaction::RedactionChannel::Api;
    use uuid::Uuid;

    #[test]
    fn rules_are_made_ready_once_and_those_not_used_for_long_are_forgotten() {
        let redaction = Redaction::new([1; 32], &[], ["hunter22"]);
        assert!(Arc::ptr_eq(&redaction.rules(&[]), &redaction.rules(&[])));
        for n in 0..2 * MAX_READY {
            let rule =
                serde_json::json!([{ "kind": "field", "name": "f", "field": n.to_string() }]);
            redaction.rules(&serde_json::from_value::<Vec<_>>(rule).unwrap());
        }
        assert_eq!(redaction.ready.lock().unwrap().by_hash.len(), MAX_READY);
    }

    #[test]
    fn what_came_from_elsewhere_is_kept_as_it_is_but_for_the_secrets_of_the_server() {
        let redaction = Redaction::new([1; 32], &[], ["hunter22"]);
        assert_eq!(redaction.masked(b"\xff\x00 hunter2 \xc3\xa9"), None);
        let masked = redaction.masked(b"\xff hunter22 \xc3\xa9").unwrap();
        assert!(masked.starts_with(b"\xff [redacted:secret:"));
        assert!(masked.ends_with(b"] \xc3\xa9"));
    }

    #[test]
    fn a_place_that_was_not_announced_is_redacted_by_the_rules_of_the_server() {
        let redaction = Redaction::new([1; 32], &[], ["hunter22"]);
        let server = redaction.of_server();
        let redactors = Redactors { channel: Api, by_place: BTreeMap::new(), server };
        let place = (ThreadId::from(Uuid::nil()), None);
        assert!(redactors.text(place, "hunter22").starts_with("[redacted:secret:"));
        let labels = BTreeMap::from([("key".to_owned(), "hunter22".to_owned())]);
        assert!(redactors.labels(&labels)["key"].starts_with("[redacted:secret:"));
    }
}
