//! The fault cases, by number: what is done to a server or its database, and what must come of it.
//!
//! | case | tests |
//! |---|---|
//! | F-01 | `f01_killed_before_a_run_is_accepted` |
//! | F-02 | `f02_killed_after_a_run_is_accepted_and_before_the_answer` |
//! | F-03 | `f03_killed_after_the_claim` `f03_a_run_whose_worker_dies_right_after_the_claim_is_resumed_and_asks_its_model_once` |
//! | F-04 | `f04_killed_while_the_model_streams` |
//! | F-05 | `f05_killed_before_the_reply_is_recorded` |
//! | F-06 | `f06_killed_before_the_tool_is_called` |
//! | F-07 | `f07_killed_while_an_idempotent_tool_works` |
//! | F-08 | `f08_killed_around_a_call_that_must_not_run_twice` `f08_a_call_that_must_not_run_twice_is_held_when_its_process_is_killed` |
//! | F-09 | `f09_killed_while_a_pure_tool_works` |
//! | F-10 | `f10_killed_around_the_outcome_of_a_tool` |
//! | F-11 | `f11_killed_after_one_of_three_results` `outcomes_that_were_recorded_stay_and_open_calls_follow_their_effect_class` |
//! | F-12 | `f12_killed_around_the_end` |
//! | F-13 | `f13_a_worker_may_be_lost_at_any_boundary_and_the_next_one_at_any_other` `a_crash_at_any_commit_never_repeats_a_call_that_may_run_once` |
//! | F-14 | `a_process_that_comes_back_from_the_dead_writes_nothing` `f14_a_stopped_worker_that_wakes_writes_nothing_and_starts_nothing` |
//! | F-15 | `f15_a_worker_that_wakes_after_its_lease_and_before_the_sweep_goes_on_once_or_not_at_all` |
//! | F-16 | `a_panic_costs_its_run_a_lease_and_other_runs_nothing` `f16_a_panic_costs_its_run_a_claim_and_other_runs_nothing` |
//! | F-17 | `a_run_that_kills_every_worker_is_given_up_as_poisoned` `f17_a_run_that_fails_every_worker_is_given_up_and_says_what_went_wrong_last` `f17_a_process_that_dies_is_told_as_lost` |
//! | F-18 | `f18_a_restart_of_the_database_loses_and_doubles_nothing` |
//! | F-19 | `f19_a_crash_of_the_database_loses_and_doubles_nothing` |
//! | F-20 | `f20_a_killed_backend_takes_every_session_with_it_and_nothing_else` |
//! | F-21 | `f21_a_database_that_restarts_again_and_again_loses_and_doubles_nothing` |
//! | F-22 | `f22_an_append_whose_answer_is_lost_is_found_and_not_done_again` `f22_an_append_that_only_moves_a_call_is_found_too` `f22_an_append_that_never_arrived_is_done_once` `f22_a_run_whose_acceptance_was_not_heard_is_accepted_once` `f22_what_a_caller_asked_of_a_run_is_done_once_though_the_answer_is_lost` `f22_an_answer_to_a_call_is_taken_though_its_answer_is_lost` |
//! | F-23 | `f23_a_commit_that_was_frozen_and_lands_later_is_waited_for_and_not_doubled` |
//! | F-24 | `f24_a_commit_that_is_frozen_for_longer_than_the_lease_is_found_by_the_next_worker` |
//! | F-25 | `f25_a_connection_that_falls_silent_is_given_up_and_replaced` `f25_a_server_whose_database_falls_silent_stops_and_another_goes_on` |
//! | F-26 | `f26_a_listener_whose_connection_is_half_open_finds_out_and_looks_at_what_it_missed` |
//! | F-27 | `f27_a_listener_whose_session_is_ended_comes_back_and_looks_at_what_it_missed` |
//! | F-28 | `f28_without_hints_runs_and_cancels_are_found_by_polling` |
//! | F-29 | `f29_a_session_that_holds_the_lock_of_notify_holds_up_neither_runs_nor_callers` |
//! | F-30 | `f30_a_failover_to_a_synchronous_standby_loses_and_doubles_nothing` |
//! | F-31 | `f31_a_failover_that_loses_commits_is_told_and_fences_what_was_claimed_before_it` |
//! | F-32 | `f32_a_server_that_takes_no_writes_is_left_as_soon_as_there_is_one_that_does` |
//! | F-33 | `f33_an_api_without_a_free_connection_says_so_soon_and_no_lease_is_lost` |
//! | F-34 | `f34_a_database_without_a_free_connection_is_not_stormed_and_is_used_again_when_it_has_one` |
//! | F-35 | `f35_a_transaction_that_is_given_up_for_another_one_is_done_again_and_at_last_refused` |
//! | F-36 | `f36_a_run_whose_row_a_stranger_locks_goes_on_when_it_is_let_go` |
//! | F-37 | `f37_a_database_without_room_refuses_runs_and_goes_on_when_it_has_some` |
//! | F-38 | `f38_a_transaction_that_is_left_open_is_warned_of_and_claims_go_on_beside_its_dead_rows` |
//! | F-39 | `f39_replicas_whose_clocks_are_ten_minutes_off_steal_nothing_from_each_other` |
//! | F-40 | `f40_after_all_replicas_were_suspended_each_run_is_resumed_once` |
//! | F-41 | `a_shutdown_waits_for_the_call_in_flight_and_records_its_outcome` `f41_a_process_told_to_stop_during_a_model_call_records_the_reply_and_exits_with_0` |
//! | F-42 | `at_the_deadline_of_a_drain_a_run_is_given_back_and_another_server_ends_it` `f42_at_the_deadline_a_call_that_must_not_run_twice_is_in_doubt_because_of_the_drain` `f42_a_server_that_drains_sends_its_readers_to_another_one` `f42_a_call_that_outlasts_a_drain_is_held` |
//! | F-43 | `f43_a_second_signal_ends_a_process_at_once_and_its_run_goes_on_elsewhere` |
//! | F-44 | `f44_three_replicas_are_replaced_one_by_one_and_no_caller_notices` |
//! | F-45 | `f45_a_run_in_a_newer_format_is_left_to_newer_workers_and_not_failed` `f45_a_newer_run_whose_worker_was_lost_is_put_back_by_an_older_server_untouched` |
//! | F-47 | `the_next_attempt_is_made_no_earlier_than_the_provider_asks` |
//! | F-48 | `f48_a_model_that_fails_every_call_is_asked_within_its_retries_and_meets_no_herd_when_it_recovers` `retries_are_bounded_for_each_server_and_for_none_inside_the_process` |
//! | F-49 | `a_server_that_never_answers_meets_the_deadline` `an_answer_that_stalls_beyond_the_time_of_its_turn_has_failed` |
//! | F-50 | `a_stream_cut_at_any_percent_is_a_whole_reply_or_none` `a_stream_that_breaks_is_told_as_restarted_and_only_the_whole_reply_stays` |
//! | F-51 | `a_fault_that_passes_costs_an_attempt_and_one_that_stays_the_run` `an_answer_without_an_end_is_an_error_at_its_bound_and_so_is_memory` |
//! | F-52 | `calls_of_a_reply_that_was_cut_off_are_told_as_truncated_and_never_run` `no_tool_is_called_by_a_stream_that_is_cut` `a_call_that_cannot_be_read_is_corrected_at_most_twice_in_a_row` |
//! | F-53 | `f53_two_hundred_calls_of_one_id_and_a_tool_that_is_not_there_are_each_answered` |
//! | F-54 | `a_reply_without_anything_usable_is_asked_again_with_the_fixed_sentence` `replies_with_nothing_usable_are_retried_a_bounded_number_of_times` |
//! | F-55 | `a_second_refusal_ends_the_run_and_nothing_is_asked_in_a_loop` |
//! | F-56 | `f56_a_tool_that_cannot_be_reached_fails_and_is_never_in_doubt` `a_server_that_is_not_there_is_a_connect_error` |
//! | F-57 | `a_connection_lost_in_mid_call_leaves_only_an_at_most_once_call_in_doubt` `a_lost_answer_of_a_tool_that_must_not_run_twice_is_told_as_in_doubt` `f57_a_reset_after_the_request_was_sent_leaves_the_call_in_doubt` |
//! | F-58 | `a_body_at_the_bound_is_taken_and_one_beyond_is_refused` `a_body_is_counted_after_decompression` `an_endless_body_is_cut_off_at_its_bound` `a_tool_that_does_not_answer_in_time_is_a_timeout` `an_answer_of_a_tool_without_an_end_is_a_failure_at_its_bound_and_so_is_memory` |
//! | F-59 | `f59_a_redirect_leads_nowhere` `f59_a_name_that_leads_home_is_refused_however_it_does` `f59_a_name_that_changes_between_two_look_ups_is_judged_at_each` `f59_a_name_without_an_address_and_one_that_nobody_answers_for_are_not_reached` `f59_a_model_whose_name_leads_home_fails_its_run_and_says_no_more` `f59_a_webhook_whose_name_leads_home_is_not_told` `f59_what_the_operator_vouches_for_is_reached` |
//! | F-60 | `f60_a_server_that_dies_in_mid_call_and_forgets_its_sessions_is_asked_anew` `f60_a_call_that_may_be_repeated_is_sent_once_more_under_its_own_key` `f60_an_error_that_answers_no_request_leaves_a_call_in_doubt_and_never_repeats_it` `f60_a_session_that_the_server_forgot_within_a_run_is_begun_anew_and_the_call_done_once` `a_server_killed_in_mid_call_leaves_a_call_in_doubt_that_must_not_run_twice` |
//! | F-61 | `f61_keep_alives_and_progress_do_not_put_the_deadline_of_a_call_off` `progress_does_not_extend_the_time_of_a_call` |
//! | F-62 | `f62_hostile_names_and_descriptions_are_left_out_or_made_plain_and_never_announced` `f62_a_list_that_changes_in_mid_run_changes_nothing_for_the_run` |
//! | F-63 | `f63_a_client_that_goes_away_is_missed_before_the_first_byte_and_in_mid_stream` `f63_a_client_that_goes_away_while_its_run_is_accepted_is_missed` `f63_a_client_that_goes_away_ends_its_run_where_it_was_asked_to` `f63_a_client_that_goes_away_leaves_its_run_alone_where_nothing_else_was_asked` `f63_a_client_that_was_served_may_go_away` |
//! | F-64 | `f64_readers_that_do_not_read_take_little_memory` `f64_a_reader_that_takes_nothing_is_cut_off_and_its_place_is_free_again` `f64_a_run_is_not_slowed_by_a_reader_that_takes_nothing` |
//! | F-65 | `f65_a_stream_that_is_cut_after_any_byte_and_resumed_is_the_durable_list` `f65_readers_that_come_back_in_mid_turn_get_one_snapshot_and_all_of_the_reply` `f65_readers_on_another_server_see_the_deltas_of_a_reply_and_nothing_twice` `f65_a_reader_elsewhere_outlives_the_server_that_worked_on_the_run` |
//! | F-66 | `f66_many_readers_of_a_run_share_one_look_at_it` `f66_readers_that_lose_a_server_together_do_not_come_back_together` |
//! | F-67 | `f67_a_cancel_and_the_end_of_a_run_have_one_winner_and_the_answer_names_it` |
//! | F-68 | `f68_a_queued_run_is_cancelled_at_once` `f68_a_run_that_is_claimed_or_thinks_is_cancelled_and_its_turn_is_aborted` `f68_a_run_in_a_tool_is_cancelled_and_what_was_sent_is_told_by_its_effect` `f68_a_run_that_waits_for_a_caller_is_cancelled` `f68_a_run_that_waits_for_its_thread_is_cancelled_and_leaves_no_step` `f68_a_cancel_during_a_drain_is_carried_out_by_the_next_server` `f68_a_wish_that_is_given_to_another_replica_is_heard` |
//! | F-69 | `f69_of_answers_that_race_on_two_servers_one_is_taken` `f69_the_same_result_from_two_clients_is_taken_from_both` |
//! | F-70 | `f70_a_result_that_never_comes_is_a_timeout` |
//! | F-71 | `f71_of_many_creates_on_one_thread_one_is_active_and_the_others_are_refused` `f71_creates_that_may_wait_run_one_after_the_other_and_are_never_interleaved` `f71_a_run_may_interrupt_the_one_before_it` `f71_a_run_may_roll_the_one_before_it_back_and_no_model_is_told_of_that_any_more` `f71_a_run_that_waits_for_its_thread_is_found_again_by_its_key` `f71_a_run_goes_on_though_the_worker_of_the_one_before_it_died_with_its_end` `f71_a_run_whose_time_is_over_before_its_turn_fails` |
//! | F-72 | `f72_f73_a_flood_of_one_tenant_delays_the_run_of_another_by_no_more_than_a_round` |
//! | F-73 | `f72_f73_a_flood_of_one_tenant_delays_the_run_of_another_by_no_more_than_a_round` |
//! | F-74 | `f74_endpoints_that_fail_hold_no_run_up_and_are_told_later_under_the_same_id` `f74_an_endpoint_that_never_answers_is_given_up_in_the_end` |
//! | F-75 | `f75_a_delivery_whose_sender_died_before_it_was_noted_is_made_again_under_its_id` |
//! | F-76 | `f76_a_thread_that_somebody_has_is_not_forgotten_and_one_that_is_forgotten_is_not_there` `f76_of_a_sweep_and_a_run_that_race_for_a_thread_one_wins` `f76_of_a_sweep_and_a_resume_that_race_for_a_thread_one_wins` |
//! | F-77 | `f77_replicas_that_migrate_at_once_wait_for_each_other_and_for_nobody_else` `f77_a_replica_waits_for_one_that_migrates_for_longer_than_a_lock_is_waited_for` |
//! | F-79 | `f79_a_process_whose_log_nobody_reads_goes_on_counts_what_it_drops_and_ends` `a_reader_that_stops_holds_nobody_up_and_what_is_dropped_is_counted` `a_collector_that_never_answers_holds_up_neither_runs_nor_the_end` `what_a_collector_that_is_down_is_not_told_is_counted` |
//!
//! F-46 does not apply: there is no bus beside the database.

mod commits;
mod crash;
mod egress;
mod failover;
mod fleet;
mod guards;
mod keeping;
mod kill_points;
mod mcp;
mod model;
mod postgres;
mod soak;
mod steer;
mod strangers;
mod streams;
mod sub_runs;
mod waits;

use std::fs;
use std::path::Path;

/// The functions of every source file below a folder.
pub(crate) fn functions(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(path).unwrap();
            let names = text.lines().filter_map(|line| {
                let line = line.trim_start();
                let line = line.strip_prefix("async ").unwrap_or(line);
                Some(line.strip_prefix("fn ")?.split_once('(')?.0.to_owned())
            });
            found.extend(names);
        }
    }
}

#[test]
fn every_test_that_the_table_of_cases_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    functions(&root.join("src"), &mut found);
    functions(&root.join("tests"), &mut found);
    let rows = include_str!("mod.rs").lines().filter(|line| line.starts_with("//! | F-"));
    let mut cases = Vec::new();
    for row in rows {
        let mut names = row.split('`').skip(1).step_by(2).peekable();
        assert!(names.peek().is_some(), "a case without a test: {row}");
        for name in names {
            assert!(found.iter().any(|function| function == name), "{name} is not there");
        }
        cases.push(row.split_whitespace().nth(2).unwrap());
    }
    assert!(cases.is_sorted(), "{cases:?}");
}
