#!/usr/bin/env bash
# Plants mutants in the machine, one at a time, and expects its tests to go red for each.
#
# It works in a scratch copy that holds only the layers the machine may name (domain and machine), so
# that a mutant builds in seconds; the working tree is never touched. Each mutant is one sed command on
# one file; a command that changes nothing is an error, and so is a mutant that the table in
# src/machine/tests/mod.rs does not name or that the test named there lets through.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
scratch=$CARGO_TARGET_DIR/mutants
log=$scratch/output.txt
survivors=0
planted=0

trap 'rm -rf "$scratch"' EXIT
rm -rf "$scratch"
mkdir -p "$scratch/src"
# The manifest keeps its version requirements and features, so that built dependencies are reused.
cp "$root/Cargo.lock" "$scratch/"
# Targets with a path of their own are not copied.
awk '/^\[/ { skip = /^\[\[/ } !skip' "$root/Cargo.toml" >"$scratch/Cargo.toml"
printf '\n[workspace]\n' >>"$scratch/Cargo.toml"
cp -r "$root/src/domain" "$root/src/machine" "$scratch/src/"
mkdir "$scratch/tests"
cp -r "$root/tests/data" "$scratch/tests/"
printf 'fn main() {}\n' >"$scratch/src/main.rs"
cat >"$scratch/src/lib.rs" <<'LIB'
//! The layers under test.
pub mod domain;
pub mod machine;
LIB

# Mutants differ by a line, so most of each build is that of the one before.
export CARGO_INCREMENTAL=1

# tests FILTER
tests() { (cd "$scratch" && cargo test --quiet --locked --lib -- "$1" >"$log" 2>&1); }

# mutant NAME FILE SED
mutant() {
  local file=$scratch/src/machine/$2 red named
  named=$(sed -nE "s/^\/\/! \| $1 \| \`([a-z_:]+)\` \|\$/\1/p" "$root/src/machine/tests/mod.rs")
  cp "$file" "$scratch/original"
  sed -i.bak -E "$3" "$file"
  if cmp -s "$file" "$scratch/original"; then
    echo "error: mutant \"$1\" does not apply to $2" >&2
    exit 2
  fi
  planted=$((planted + 1))
  # Only the test that the table names: that it goes red is what is claimed.
  if tests "${named:-unnamed}"; then
    printf '%-50s → SURVIVED\n' "$1"
    survivors=$((survivors + 1))
  elif ! grep -q 'test result: FAILED' "$log"; then
    echo "error: mutant \"$1\" does not build:" >&2
    tail -n 30 "$log" >&2
    exit 2
  else
    # The failed tests are listed by name at the end, indented.
    red=$(sed -nE 's/^    machine::(tests::)?([a-z_:]+)$/\2/p' "$log" | sort -u)
    if grep -qxF -- "${named:-unnamed}" <<<"$red"; then
      printf '%-50s → %s\n' "$1" "$named"
    else
      printf '%-50s → MISSED by "%s"; red: %s\n' "$1" "$named" "$(tr '\n' ' ' <<<"$red")"
      survivors=$((survivors + 1))
    fi
  fi
  mv "$scratch/original" "$file"
  # Cargo compares times: the restored file has to look newer than the mutant's build.
  touch "$file"
}

if ! tests machine::; then
  echo "error: the machine's tests are red without any mutant:" >&2
  tail -n 40 "$log" >&2
  exit 2
fi

mutant 'a stale reply is accepted' state.rs \
  's/\(self\.turn, self\.attempt\) == \(turn, attempt\)/self.turn == turn \&\& attempt > 0/'
mutant 'a repeated or unknown outcome is accepted' state.rs \
  's/\.is_some_and\(\|call\| call\.state\(\) == CallState::Started \&\& /.is_none_or(|call| /'
mutant 'an outcome of an earlier attempt is accepted' state.rs \
  's/CallState::Started \&\& call\.attempt == attempt\)/CallState::Started \&\& call.attempt >= attempt)/'
mutant 'the step limit is off by one' turn.rs \
  's/done >= draft\.limits\.max_steps/done > draft.limits.max_steps/'
mutant 'one model attempt too many' turn.rs \
  's/tries\(\) < draft\.limits\.model_attempts/tries() <= draft.limits.model_attempts/'
mutant 'a fallback has the attempts that are left only' turn.rs \
  's/draft\.state\.tries\(\) < /draft.state.attempt() < /'
mutant 'one output retry too many' turn.rs \
  's/n_retries >= draft\.limits\.output_retries/n_retries > draft.limits.output_retries/'
mutant 'one retry after truncation too many' turn.rs \
  's/n_retries > draft\.limits\.output_retries/n_retries > draft.limits.output_retries + 1/'
mutant 'one retry of unreadable calls too many' turn.rs \
  's/n_unparsable > UNPARSABLE_RETRIES/n_unparsable > UNPARSABLE_RETRIES + 1/'
mutant 'the next turn starts with open calls' calls.rs \
  's/if draft\.state\.open_calls\(\)\.next\(\)\.is_none\(\) \{/if draft.state.open_calls().count() < 2 {/'
mutant 'a finished run is interrupted' calls.rs \
  's/Phase::Blank \| Phase::Ended\(_\) => return,/Phase::Blank => return, Phase::Ended(_) => {}/'
mutant 'turns are miscounted' turn.rs \
  's/turn: done\.saturating_add\(1\)/turn: done.max(1)/'
mutant 'an at_most_once call is repeated after a reclaim' calls.rs \
  '/^    for call in started/,/^    \}/s/if may_repeat\(\&call\.planned\)/if true/'
mutant 'a call of a truncated reply runs' turn.rs \
  's/^( +)if cut \{/\1if false \&\& cut {/'
mutant 'the loop is seen one turn late' repeat.rs \
  's/n_repeats >= loop_limit/n_repeats > loop_limit/'
mutant 'calls that need order run together' calls.rs \
  's/if !needs_order \{/if needs_order || !needs_order {/'
mutant 'an at_most_once call starts with the reply' turn.rs \
  's/Ride::Repeatable/Ride::All/'
mutant 'a lost model call is repeated for ever' turn.rs \
  's/draft\.state\.attempt\(\) < bound/bound > 0/'
mutant 'a lost tool call is repeated for ever' calls.rs \
  's/may_repeat\(\&call\.planned\) \&\& call\.attempt > RECLAIMS/call.attempt == u32::MAX \&\& RECLAIMS > 0/'
mutant 'an open call is not closed at the end' calls.rs \
  's/_ => close\(draft, \&call, kind\),/_ => {}/'
mutant 'a resumption forgets the step limit' turn.rs \
  's/let closing = done >= /let closing = !draft.records.contains(\&Record::Resumed) \&\& done >= /'
mutant 'a sent at_most_once call counts as not run' calls.rs \
  's/if is_out \&\& !may_repeat\(\&call\.planned\)/if false \&\& is_out/'
mutant 'a run is completed past a message' turn.rs \
  's/if draft\.waiting\(\)\.is_some\(\) \&\& /if false \&\& draft.waiting().is_some() \&\& /'
mutant 'a message leads on from the closing turn' turn.rs \
  's/if (draft\.waiting\(\)\.is_some\(\)) \&\& !draft\.state\.is_closing\(\) /if \1 /'
mutant 'a message leaves the repeats as they are' state.rs \
  '/fn take_message/,/^    \}/s/self\.signature = None;//'
mutant 'a call runs before its approval' call.rs \
  's/if self\.planned\.waits\.approval/if false \&\& self.planned.waits.approval/'
mutant 'a call of the caller is sent' call.rs \
  's/if self\.planned\.waits\.by_client/if false \&\& self.planned.waits.by_client/'
mutant 'work is due while the run waits' mod.rs \
  '/^pub fn due/,/^\}/s/if state\.parked\(\)\.is_some\(\)/if false/'
mutant 'a run waits while something goes on' wait.rs \
  's/= \(goes_on, reason\)/= (false \&\& goes_on, reason)/'
mutant 'a call in doubt is not held' wait.rs \
  's/is_unknown \&\& !may_repeat/false \&\& is_unknown \&\& !may_repeat/'
mutant 'an answer to an earlier question counts' draft.rs \
  's/\&\& given\.attempt == call\.attempt/\&\& given.attempt <= call.attempt/'
mutant 'time that is over outweighs an answer' wait.rs \
  's/if let Some\(answer\) = draft\.answer_to\(\&call\)/if let Some(answer) = draft.answer_to(\&call).filter(|_| !draft.is_overdue(\&call))/'
mutant 'a probe outweighs a caller' calls.rs \
  's/call\.filter\(\|call\| draft\.answer_to\(call\)\.is_none\(\)\)/call.filter(|_| true)/'
mutant 'a call that is not found is sent for ever' calls.rs \
  's/call\.attempt <= PROBED_RETRIES/call.attempt <= u32::MAX - PROBED_RETRIES/'
mutant 'a run that is to stop waits' wait.rs \
  's/if draft\.is_to_stop/if false \&\& draft.is_to_stop/'
mutant 'a turn begins without budget' turn.rs \
  '/^pub\(super\) fn next/,/^\}/s/if draft\.is_out_of_budget/if false \&\& draft.is_out_of_budget/'
mutant 'what was said of a call is lost in the end' calls.rs \
  's/Some\(answer\) if answer\.is_outcome\(\)/Some(answer) if false \&\& answer.is_outcome()/'

listed=$(sed -nE 's/^\/\/! \| .+ \| `[a-z_:]+` \|$/&/p' "$root/src/machine/tests/mod.rs" | wc -l)
if [ "$listed" -ne "$planted" ]; then
  echo "error: the table lists $listed mutants, $planted were planted" >&2
  exit 2
fi
echo "$planted mutants planted, $survivors survived"
[ "$survivors" -eq 0 ]
