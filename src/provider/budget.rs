//! How many retries a provider's account has left: a tenth of its calls, and a few to begin with.
//!
//! When a provider is down, every call fails and every retry adds to what it cannot bear. Calls that
//! share a quota share a budget, and once that is used up a failure is final.

use std::collections::BTreeMap;
use std::time::Duration;

/// What a call adds, in tenths of a retry.
const PER_CALL: u32 = 1;

/// What a retry takes.
const PER_RETRY: u32 = 10;

/// What an account has that nobody has called. It comes once: what time gave back would let those who
/// wait long enough retry for ever.
const FIRST: u32 = 3 * PER_RETRY;

/// The most that calls add up to: what a provider did well long ago says little of now.
const MOST: u32 = 100 * PER_RETRY;

/// How many accounts are remembered. Agents name any address, so there is no end to them.
const ACCOUNTS: usize = 1_024;

/// What retries are counted for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Account {
    /// The operator's key of this environment variable.
    Key(&'static str),
    /// A server that is shown no key.
    Origin(String),
}

#[derive(Debug)]
struct Bucket {
    tenths: u32,
    used: Duration,
}

/// The budgets of all accounts.
#[derive(Debug, Default)]
pub(super) struct RetryBudgets {
    buckets: BTreeMap<Account, Bucket>,
}

impl RetryBudgets {
    /// Counts a call that is no retry.
    pub(super) fn called(&mut self, account: Account, now: Duration) {
        let bucket = self.bucket(account, now);
        bucket.tenths = bucket.tenths.saturating_add(PER_CALL).min(MOST);
    }

    /// Takes a retry, if there is one left.
    pub(super) fn take(&mut self, account: Account, now: Duration) -> bool {
        let bucket = self.bucket(account, now);
        let left = bucket.tenths.checked_sub(PER_RETRY);
        bucket.tenths = left.unwrap_or(bucket.tenths);
        left.is_some()
    }

    fn bucket(&mut self, account: Account, now: Duration) -> &mut Bucket {
        if self.buckets.len() >= ACCOUNTS && !self.buckets.contains_key(&account) {
            self.forget_one();
        }
        let bucket = self.buckets.entry(account).or_insert(Bucket { tenths: FIRST, used: now });
        bucket.used = now;
        bucket
    }

    /// Forgets the account that was not used for longest.
    fn forget_one(&mut self) {
        let oldest = self.buckets.iter().min_by_key(|(_, bucket)| bucket.used);
        if let Some(account) = oldest.map(|(account, _)| account.clone()) {
            self.buckets.remove(&account);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: Account = Account::Key("KEY");

    fn at(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    /// How many retries are granted in a row.
    fn granted(budgets: &mut RetryBudgets, account: &Account, now: Duration) -> usize {
        (0..1_000).take_while(|_| budgets.take(account.clone(), now)).count()
    }

    #[test]
    fn three_retries_are_there_at_first_and_one_more_for_every_ten_calls() {
        let mut budgets = RetryBudgets::default();
        assert_eq!(granted(&mut budgets, &KEY, at(0)), 3);
        for _ in 0..29 {
            budgets.called(KEY, at(1));
        }
        assert_eq!(granted(&mut budgets, &KEY, at(1)), 2);
        budgets.called(KEY, at(1));
        assert_eq!(granted(&mut budgets, &KEY, at(1)), 1);
    }

    #[test]
    fn those_who_wait_long_have_no_more_retries() {
        let mut budgets = RetryBudgets::default();
        assert_eq!(granted(&mut budgets, &KEY, at(0)), 3);
        for second in [60, 150, 100_000] {
            assert_eq!(granted(&mut budgets, &KEY, at(second)), 0, "{second}");
        }
    }

    #[test]
    fn accounts_do_not_share_and_old_success_is_forgotten() {
        let mut budgets = RetryBudgets::default();
        let other = Account::Origin("http://h".to_owned());
        for _ in 0..100_000 {
            budgets.called(other.clone(), at(0));
        }
        assert_eq!(granted(&mut budgets, &KEY, at(0)), 3);
        assert_eq!(granted(&mut budgets, &other, at(0)), 100);
    }

    #[test]
    fn however_many_addresses_there_are_only_so_many_are_remembered() {
        let mut budgets = RetryBudgets::default();
        for number in 0..3_000 {
            budgets.called(Account::Origin(number.to_string()), at(number));
        }
        assert_eq!(budgets.buckets.len(), ACCOUNTS);
        assert!(budgets.buckets.contains_key(&Account::Origin("2999".to_owned())));
        assert!(!budgets.buckets.contains_key(&Account::Origin("0".to_owned())));
    }

    proptest! {
        #[test]
        fn retries_are_at_most_a_tenth_of_the_calls_and_three(
            moves in prop::collection::vec((any::<bool>(), 0u64..600), 0..400),
        ) {
            let (mut budgets, mut now) = (RetryBudgets::default(), at(0));
            let (mut calls, mut retries) = (0_u32, 0_u32);
            for (is_call, secs) in moves {
                now += at(secs);
                if is_call {
                    calls += 1;
                    budgets.called(KEY, now);
                }
                retries += u32::from(budgets.take(KEY, now));
                prop_assert!(retries * 10 <= calls + 30, "{retries} retries of {calls} calls");
            }
        }
    }
}
