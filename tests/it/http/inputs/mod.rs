//! The table of bad inputs, by number: which tests have its rows, as data or as a story.
//!
//! | row | tests |
//! |---|---|
//! | B-01 | `a_body_that_is_not_json_as_it_must_be_is_refused_everywhere` |
//! | B-02 | `a_body_that_is_not_json_as_it_must_be_is_refused_everywhere` |
//! | B-03 | `a_body_that_is_not_json_as_it_must_be_is_refused_everywhere` |
//! | B-04 | `a_body_that_is_not_json_as_it_must_be_is_refused_everywhere` |
//! | B-05 | `a_body_that_is_not_json_as_it_must_be_is_refused_everywhere` |
//! | B-06 | `a_body_that_is_not_json_as_it_must_be_is_refused_everywhere` |
//! | B-07 | `a_body_that_is_not_json_as_it_must_be_is_refused_everywhere` |
//! | B-08 | `a_body_that_is_not_json_as_it_must_be_is_refused_everywhere` |
//! | B-09 | `a_body_that_is_not_json_as_it_must_be_is_refused_everywhere` |
//! | B-10 | `a_body_may_be_as_large_as_the_limit_and_no_byte_larger` |
//! | B-11 | `b11_a_body_that_stalls_is_given_up` |
//! | B-13 | `only_plain_json_in_utf_8_is_taken_everywhere` |
//! | B-14 | `only_plain_json_in_utf_8_is_taken_everywhere` |
//! | B-15 | `what_is_asked_for_is_json_or_events_and_nothing_else` |
//! | B-16 | `b16_b18_requests_that_no_path_takes_are_turned_away` `a_path_takes_the_methods_of_the_document_and_says_so_when_asked_otherwise` |
//! | B-18 | `b16_b18_requests_that_no_path_takes_are_turned_away` |
//! | B-19 | `b19_a_request_that_can_be_cut_in_two_ways_is_refused_and_its_connection_closed` |
//! | B-20 | `a_body_that_is_not_json_as_it_must_be_is_refused_everywhere` |
//! | B-21 | `a_body_that_is_not_json_as_it_must_be_is_refused_everywhere` |
//! | B-22 | `a_value_of_another_type_is_refused_at_its_place_wherever_it_stands` |
//! | B-23 | `a_body_that_is_not_json_as_it_must_be_is_refused_everywhere` |
//! | B-25 | `headers_that_mean_nothing_here_are_ignored` |
//! | B-26 | `whatever_is_wrong_with_a_credential_the_answer_is_the_same` |
//! | B-28 | `a_key_stops_working_when_it_expires_and_soon_after_it_is_revoked` |
//! | B-29 | `b29_a_token_without_a_signature_is_refused` `b29_a_token_signed_with_the_public_key_as_a_secret_is_refused` `b29_a_token_for_somebody_else_or_of_somebody_else_is_refused` `b29_a_token_whose_time_is_over_or_has_not_come_is_refused` `b29_a_token_of_a_key_that_is_not_the_issuers_is_refused_wherever_it_says_that_it_is` |
//! | B-30 | `each_operation_needs_its_scope` |
//! | B-31 | `a_key_in_the_query_opens_nothing` |
//! | B-32 | `a_bad_run_is_refused_at_its_place_and_nothing_is_stored` |
//! | B-34 | `a_bad_run_is_refused_at_its_place_and_nothing_is_stored` |
//! | B-35 | `a_bad_run_is_refused_at_its_place_and_nothing_is_stored` |
//! | B-36 | `a_bad_run_is_refused_at_its_place_and_nothing_is_stored` |
//! | B-38 | `an_idempotency_key_is_one_visible_word` |
//! | B-39 | `an_idempotency_key_is_one_visible_word` `a_request_whose_first_is_still_under_way_is_told_so` |
//! | B-40 | `a_bad_run_is_refused_at_its_place_and_nothing_is_stored` |
//! | B-41 | `b41_b42_a_bad_file_is_refused_at_its_place` |
//! | B-42 | `b41_b42_a_bad_file_is_refused_at_its_place` |
//! | B-44 | `agents_with_bad_tools_are_refused_at_their_place` |
//! | B-45 | `a_schema_that_cannot_be_checked_is_refused` |
//! | B-46 | `b46_whatever_is_wrong_with_an_id_the_answer_is_the_same` |
//! | B-47 | `a_page_that_cannot_be_is_refused` `b47_a_cursor_of_another_tenant_is_none` |
//! | B-48 | `a_filter_that_cannot_be_is_refused` |
//! | B-50 | `b50_a_page_of_long_runs_reads_none_of_their_steps` |
//! | B-51 | `a_run_that_has_ended_cannot_be_steered` `b51_a_cancel_may_be_repeated_and_must_be_well_formed` |
//! | B-52 | `results_of_no_call_that_waits_for_them_are_refused` |
//! | B-53 | `the_same_result_may_be_posted_again_and_another_one_is_refused` |
//! | B-55 | `b55_b56_a_bad_result_is_refused_at_its_place` `a_result_may_be_as_large_as_the_limit_and_no_byte_larger` |
//! | B-56 | `b55_b56_a_bad_result_is_refused_at_its_place` |
//! | B-58 | `a_stream_is_asked_for_as_streams_are` |
//! | B-59 | `a_stream_of_an_ended_run_replays_it_and_ends` `a_run_that_has_ended_is_erased_and_gone_for_good` |
//! | B-60 | `the_hundred_and_first_stream_of_a_tenant_is_refused` |
//! | B-61 | `a_stream_is_asked_for_as_streams_are` |
//! | B-63 | `a_memory_document_that_does_not_load_changes_nothing` `a_document_of_the_original_framework_comes_back_with_nothing_lost` |
//! | B-64 | `a_retry_without_a_cause_and_one_with_a_list_read_as_error` |
//! | B-65 | `a_memory_document_that_does_not_load_changes_nothing` `what_can_be_mended_loads_where_that_is_asked_for_and_is_listed` |
//! | B-66 | `a_memory_document_that_does_not_load_changes_nothing` `a_document_may_have_sixteen_mebibytes_and_not_one_byte_more` |
//! | B-67 | `text_in_the_system_voice_takes_a_scope_of_its_own` |
//! | B-68 | `the_memory_of_a_running_thread_is_read_as_it_stands_and_not_changed` `a_change_that_names_another_state_is_refused` |
//! | B-70 | `b70_an_export_is_asked_for_as_exports_are` `an_action_under_way_is_not_exported_before_its_calls_have_ended` |
//! | B-71 | `generated_histories_come_back_to_the_byte_over_http` `an_export_reads_back_as_the_same_memory_and_the_same_bytes` |
//! | B-72 | `b72_an_address_that_is_closed_is_refused_wherever_it_stands` `no_spelling_of_a_url_reaches_a_closed_address_from_any_place` `f59_a_name_that_leads_home_is_refused_however_it_does` |
//! | B-73 | `agents_with_bad_tools_are_refused_at_their_place` |
//! | B-74 | `agents_with_bad_tools_are_refused_at_their_place` |
//! | B-76 | `agents_with_bad_tools_are_refused_at_their_place` |
//! | B-77 | `hostile_arguments_are_refused_and_the_run_goes_on` `every_failure_is_told_with_its_text_and_its_hint_and_ends_no_run` |
//! | B-78 | `agents_with_bad_tools_are_refused_at_their_place` |
//! | B-79 | `b79_a_program_is_the_operators_to_start` |
//! | B-81 | `f60_an_error_that_answers_no_request_leaves_a_call_in_doubt_and_never_repeats_it` `a_server_that_is_away_or_is_none_is_not_available` |
//! | B-83 | `b83_a_model_elsewhere_is_refused_at_its_place` `the_operators_key_goes_to_listed_origins_and_nowhere_else` |
//! | B-85 | `b85_a_variable_of_the_server_is_no_secret` `a_secret_is_stored_shown_without_its_value_listed_and_forgotten` |
//! | B-86 | `a_secret_that_is_named_is_forgotten_only_by_force` |
//! | B-87 | `agents_that_cannot_be_are_refused_at_their_place` |
//! | B-88 | `agents_that_cannot_be_are_refused_at_their_place` `instructions_with_framing_tags_are_taken_as_they_are` |
//! | B-89 | `b89_b91_conditions_hold_or_are_ignored` `a_run_keeps_the_version_it_was_started_with` |
//! | B-91 | `b89_b91_conditions_hold_or_are_ignored` |
//! | B-92 | `a_web_page_of_another_origin_is_given_no_permission` |
//! | B-93 | `b93_two_thousand_pipelined_requests_are_answered_one_after_the_other` `b93_a_client_that_pipelines_and_reads_nothing_is_hung_up_on` `b93_the_stream_beyond_a_hundred_and_twenty_eight_is_refused` `b93_a_flood_of_resets_ends_the_connection` `b93_headers_beyond_64_kib_are_refused_and_the_connection_goes_on_or_ends` `b93_headers_without_an_end_end_the_connection` |
//! | B-94 | `a_server_without_keys_answers_to_the_names_of_its_machine_only` |
//! | B-95 | `b95_a_body_that_is_too_large_is_never_asked_for` |

mod agents;
mod memory;
mod reading;
mod runs;
mod wire;

use std::fs;
use std::path::Path;

use crate::faults::functions;

/// Rows without a test, and why.
const PENDING: &[(&str, &str)] = &[("B-82", "MCP servers are not authorised by OAuth yet")];

/// The rows of a table whose lines begin so: what follows the number.
fn lines<'a>(text: &'a str, start: &str) -> Vec<(&'a str, &'a str)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(start));
    lines.filter_map(|line| line.split_once(" | ")).collect()
}

#[test]
fn every_row_of_the_table_of_bad_inputs_has_a_test_that_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    functions(&root.join("src"), &mut found);
    functions(&root.join("tests"), &mut found);
    let rows = lines(include_str!("mod.rs"), "//! | B-");
    assert!(rows.is_sorted(), "sort the table");
    for (row, names) in &rows {
        let mut names = names.split('`').skip(1).step_by(2).peekable();
        assert!(names.peek().is_some(), "B-{row} has no test");
        let missing = names.find(|name| !found.iter().any(|function| function == name));
        assert_eq!(missing, None, "B-{row}");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "tests are told by the environment where it is")]
#[expect(clippy::print_stderr, reason = "a test that checks nothing must say so")]
fn the_table_of_bad_inputs_has_every_row_of_the_specification() {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared");
    let root = std::env::var("AGENTLING_SHARED").unwrap_or_else(|_| beside.to_owned());
    let Ok(specified) = fs::read_to_string(Path::new(&root).join("spec/inputs.md")) else {
        eprintln!("skipped: there is no specification in {root}");
        return;
    };
    let rows = lines(include_str!("mod.rs"), "//! | B-");
    let specified = lines(&specified, "| B-");
    assert!(specified.len() > 70, "{}", specified.len());
    for (row, _) in specified {
        let has_test = rows.iter().any(|(known, _)| *known == row);
        let is_pending = PENDING.iter().any(|(pending, _)| pending.strip_prefix("B-") == Some(row));
        assert!(has_test != is_pending, "B-{row}: a test, or a reason why there is none");
    }
}
