//! Budgets: what runs may use up, in tokens, money, turns and tool calls, and what things cost.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::id::{AgentId, KeyId, RunId, TenantId, ThreadId};
use super::model::{ModelSpec, Usage};
use super::money::Money;
use crate::labels;

/// The most that a bound may be.
pub const MAX_BOUND: u64 = 1_000_000_000_000_000;

/// What a call is taken to cost whose price is not known: more than any budget holds.
pub const UNPRICED: u64 = 1_000_000_000_000_000_000;

/// How long a reply is taken to be at most that has no bound of its own.
pub const ASSUMED_OUTPUT: u32 = 8_192;

labels! {
    /// What is counted.
    Resource {
        /// Tokens, read and written.
        Tokens = "tokens",
        /// Money, as the prices of models have it.
        Cost = "cost",
        /// Turns of models.
        Turns = "turns",
        /// Calls of tools; `final_answer` is none.
        ToolCalls = "tool_calls",
    }
}

labels! {
    /// What a budget is a budget of.
    BudgetScope {
        /// All runs of the tenant.
        Tenant = "tenant",
        /// The runs that were started with a key.
        Key = "key",
        /// The runs of an agent, whatever its version.
        Agent = "agent",
        /// The runs on a thread.
        Thread = "thread",
        /// One run.
        Run = "run",
    }
}

labels! {
    /// How long what was used counts.
    BudgetPeriod {
        /// For good.
        Total = "total",
        /// Until the end of the day, UTC.
        Day = "day",
        /// Until the end of the month, UTC.
        Month = "month",
    }
}

/// What one run may use up. What is absent is not bounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Tokens, read and written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1_000_000_000_000_000i64)]
    pub tokens: Option<u64>,
    /// Money; every model of the agent needs a price then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
    /// Turns of models; attempts at one turn count once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1_000_000_000_000_000i64)]
    pub turns: Option<u64>,
    /// Calls of tools that were started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1_000_000_000_000_000i64)]
    pub tool_calls: Option<u64>,
    /// Wall time in milliseconds, from when the run is accepted. It cannot be raised: the run then
    /// fails as it does at `run_timeout_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 86_400_000)]
    pub time_ms: Option<u64>,
}

impl Budget {
    /// The same with the bounds of another where that has any.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.or(other.tokens),
            cost: self.cost.or(other.cost),
            turns: self.turns.or(other.turns),
            tool_calls: self.tool_calls.or(other.tool_calls),
            time_ms: self.time_ms.or(other.time_ms),
        }
    }

    /// The bounds of what is counted.
    pub fn bounds(&self) -> Vec<(Resource, u64)> {
        let bounds = [
            (Resource::Tokens, self.tokens),
            (Resource::Cost, self.cost.map(Money::micros)),
            (Resource::Turns, self.turns),
            (Resource::ToolCalls, self.tool_calls),
        ];
        bounds.into_iter().filter_map(|(resource, bound)| Some((resource, bound?))).collect()
    }

    /// Whether nothing is bounded.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Whose budget it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BudgetOwner {
    /// The tenant's.
    Tenant,
    /// A key's.
    Key(KeyId),
    /// An agent's.
    Agent(AgentId),
    /// A thread's.
    Thread(ThreadId),
    /// A run's.
    Run(RunId),
}

impl BudgetOwner {
    /// The owner that a scope and an id name; `None` where they name none of the tenant's.
    pub fn named(scope: BudgetScope, id: &str, tenant: &TenantId) -> Option<Self> {
        match scope {
            BudgetScope::Tenant => (id == tenant.as_str()).then_some(Self::Tenant),
            BudgetScope::Key => id.parse().ok().map(Self::Key),
            BudgetScope::Agent => id.parse().ok().map(Self::Agent),
            BudgetScope::Thread => id.parse().ok().map(Self::Thread),
            BudgetScope::Run => id.parse().ok().map(Self::Run),
        }
    }

    /// What kind of owner it is.
    pub const fn scope(self) -> BudgetScope {
        match self {
            Self::Tenant => BudgetScope::Tenant,
            Self::Key(_) => BudgetScope::Key,
            Self::Agent(_) => BudgetScope::Agent,
            Self::Thread(_) => BudgetScope::Thread,
            Self::Run(_) => BudgetScope::Run,
        }
    }

    /// The stored id.
    pub const fn uuid(self) -> Uuid {
        match self {
            Self::Tenant => Uuid::nil(),
            Self::Key(id) => id.uuid(),
            Self::Agent(id) => id.uuid(),
            Self::Thread(id) => id.uuid(),
            Self::Run(id) => id.uuid(),
        }
    }

    /// The owner as stored.
    pub fn stored(scope: BudgetScope, id: Uuid) -> Self {
        match scope {
            BudgetScope::Tenant => Self::Tenant,
            BudgetScope::Key => Self::Key(id.into()),
            BudgetScope::Agent => Self::Agent(id.into()),
            BudgetScope::Thread => Self::Thread(id.into()),
            BudgetScope::Run => Self::Run(id.into()),
        }
    }

    /// The id as callers know it.
    pub fn id(self, tenant: &TenantId) -> String {
        match self {
            Self::Tenant => tenant.to_string(),
            Self::Key(id) => id.to_string(),
            Self::Agent(id) => id.to_string(),
            Self::Thread(id) => id.to_string(),
            Self::Run(id) => id.to_string(),
        }
    }
}

/// What a model costs: so much for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// A million tokens read.
    pub input: Money,
    /// A million tokens written.
    pub output: Money,
    /// A million tokens read from the provider's cache; by default what those cost that are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<Money>,
    /// A million tokens written to the provider's cache; by default what those cost that are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<Money>,
}

impl Price {
    /// What so many tokens cost, a part of a millionth counting as one.
    pub fn of(&self, usage: Usage) -> Money {
        let cached = usage.cache_read.saturating_add(usage.cache_write);
        let parts = [
            (self.input, usage.input.saturating_sub(cached)),
            (self.cache_read.unwrap_or(self.input), usage.cache_read),
            (self.cache_write.unwrap_or(self.input), usage.cache_write),
            (self.output, usage.output),
        ];
        let cost = |(price, n): (Money, u64)| u128::from(price.micros()) * u128::from(n);
        let sum: u128 = parts.into_iter().map(cost).sum();
        Money::of_micros(u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(UNPRICED))
    }

    /// The most that so many tokens may cost, whatever the provider's cache does.
    pub fn at_most(&self, input: u64, output: u64) -> Money {
        let dearest = [Some(self.input), self.cache_read, self.cache_write];
        let input_price = dearest.into_iter().flatten().max().unwrap_or(self.input);
        Self { input: input_price, ..*self }.of(Usage { input, output, ..Usage::default() })
    }
}

/// What models cost, by `provider/model`, or `provider/*` for all others of a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Prices(pub BTreeMap<String, Price>);

impl Prices {
    /// What a model costs, as far as is known. What its agent says comes first.
    pub fn of(&self, model: &ModelSpec) -> Option<Price> {
        let listed = |name: &str| self.0.get(&format!("{}/{name}", model.provider)).copied();
        model.price.or_else(|| listed(&model.name)).or_else(|| listed("*"))
    }
}

/// The most that a call of a model is foreseen to take: its prompt by estimate, with a quarter on top,
/// and a reply as long as it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorstCase {
    /// Tokens, read and written.
    pub tokens: u64,
    /// What they cost, in millionths.
    pub cost: u64,
}

impl WorstCase {
    /// Of a prompt of about so many tokens.
    pub fn of(prompt: u64, max_output: u32, price: Option<Price>) -> Self {
        let input = prompt.saturating_add(prompt.div_ceil(4)).saturating_add(32).min(MAX_BOUND);
        let output = u64::from(max_output);
        let cost = price.map_or(UNPRICED, |price| price.at_most(input, output).micros());
        Self { tokens: input.saturating_add(output), cost }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn price(input: u64, output: u64) -> Price {
        let money = Money::of_micros;
        Price { input: money(input), output: money(output), cache_read: None, cache_write: None }
    }

    #[test]
    fn a_price_is_for_a_million_tokens_and_parts_of_a_millionth_count_as_one() {
        let price = price(1_250_000, 10_000_000);
        let usage = |input, output| Usage { input, output, ..Usage::default() };
        assert_eq!(price.of(usage(1_000_000, 0)).micros(), 1_250_000);
        assert_eq!(price.of(usage(100, 10)).micros(), 225);
        assert_eq!(price.of(usage(1, 0)).micros(), 2);
        assert_eq!(price.of(usage(0, 0)).micros(), 0);
    }

    #[test]
    fn what_an_agent_says_of_a_price_comes_before_the_table_and_its_stars() {
        let model = |name: &str, price: Option<Price>| {
            let spec = serde_json::json!({"provider": "openai", "name": name});
            ModelSpec { price, ..serde_json::from_value(spec).unwrap() }
        };
        let listed = [("openai/a", price(1, 1)), ("openai/*", price(2, 2))];
        let prices = Prices(listed.map(|(name, price)| (name.to_owned(), price)).into());
        assert_eq!(prices.of(&model("a", None)), Some(price(1, 1)));
        assert_eq!(prices.of(&model("b", None)), Some(price(2, 2)));
        assert_eq!(prices.of(&model("a", Some(price(3, 3)))), Some(price(3, 3)));
        assert_eq!(Prices::default().of(&model("a", None)), None);
    }

    proptest! {
        #[test]
        fn what_is_foreseen_is_never_less_than_what_comes_of_it(
            prompt in 0_u64..10_000_000,
            share in 0_u64..=100,
            output in 0_u32..1_000_000,
            (read, write) in (0_u64..=50, 0_u64..=50),
            prices in prop::array::uniform4(0_u64..1_000_000_000),
        ) {
            let money = Money::of_micros;
            let [input, out, cache_read, cache_write] = prices.map(money);
            let price = Price {
                input,
                output: out,
                cache_read: Some(cache_read),
                cache_write: Some(cache_write),
            };
            let worst = WorstCase::of(prompt, output, Some(price));
            let usage = Usage {
                input: prompt,
                output: u64::from(output) * share / 100,
                cache_read: prompt * read / 100,
                cache_write: prompt * write / 100,
                reasoning: 0,
            };
            prop_assert!(usage.input + usage.output <= worst.tokens);
            prop_assert!(price.of(usage).micros() <= worst.cost);
        }
    }
}
