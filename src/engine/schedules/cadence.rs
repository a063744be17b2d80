//! Due times: a cron expression on the clock of a time zone.
//!
//! Five fields: minute, hour, day of the month, month, day of the week. Each is `*`, a number, a range
//! `a-b`, either of the last two or `*` with a step `/n`, or a list of these; months and days of the week
//! also go by the first three letters of their English names, and Sunday is 0 or 7. When both days are
//! restricted, either will do.
//!
//! Where the clock is put forward, a time that it leaves out is due when it goes on. Where it is put
//! back, a time that it shows twice is due the first time. An expression whose hour begins with `*` names
//! no time of day, so it goes on without regard to what the clock is called: in the hour that is left
//! out nothing is due, and in the hour that comes twice everything is due twice.

use chrono::offset::LocalResult;
use chrono::{
    DateTime, Datelike as _, Days, NaiveDate, NaiveDateTime, TimeDelta, TimeZone as _, Utc,
};
use chrono_tz::Tz;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// How many days are looked at for the next due time: 29 February may be eight years away.
const HORIZON_DAYS: u64 = 9 * 366;

/// When something is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cadence {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether a day must fit both, or only one of day of the month and day of the week.
    fits_both: bool,
    /// Whether no time of day is named.
    any_hour: bool,
    zone: Tz,
}

/// Why a cadence cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadCadence {
    /// The expression.
    #[error("must be a cron expression of five fields: minute, hour, day, month, day of the week")]
    Cron,
    /// The time zone.
    #[error("must be a time zone of the IANA database, such as `Europe/Paris`")]
    TimeZone,
}

impl Cadence {
    /// Reads an expression and the name of a time zone.
    ///
    /// # Errors
    /// With which of the two cannot be read.
    pub fn parse(cron: &str, zone: &str) -> Result<Self, BadCadence> {
        let zone = zone.parse().map_err(|_| BadCadence::TimeZone)?;
        let fields: Vec<&str> = cron.split_ascii_whitespace().collect();
        let [minute, hour, day, month, weekday] = *fields else { return Err(BadCadence::Cron) };
        let read = |text, bounds, names| field(text, bounds, names).ok_or(BadCadence::Cron);
        let weekdays = read(weekday, (0, 7), &WEEKDAYS)?;
        Ok(Self {
            minutes: read(minute, (0, 59), &[])?,
            hours: read(hour, (0, 23), &[])?,
            days: read(day, (1, 31), &[])?,
            months: read(month, (1, 12), &MONTHS)?,
            // Sunday has two numbers.
            weekdays: weekdays | (weekdays >> 7),
            fits_both: day.starts_with('*') || weekday.starts_with('*'),
            any_hour: hour.starts_with('*'),
            zone,
        })
    }

    /// The first due time after a moment; `None` when none will come.
    pub fn next_after(&self, moment: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let today = moment.with_timezone(&self.zone).date_naive();
        // A due time of yesterday's clock can have been moved to today.
        let first = today.checked_sub_days(Days::new(1))?;
        let dates = (0..HORIZON_DAYS).map_while(|n| first.checked_add_days(Days::new(n)));
        let mut found = dates.filter(|date| self.is_on(*date)).flat_map(|date| self.times(date));
        found.find(|time| *time > moment)
    }

    fn is_on(&self, date: NaiveDate) -> bool {
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().num_days_from_sunday());
        let fits = if self.fits_both { day && weekday } else { day || weekday };
        fits && has(self.months, date.month())
    }

    /// The due times of a date, in order.
    fn times(&self, date: NaiveDate) -> Vec<DateTime<Utc>> {
        let hours = (0..24).filter(|hour| has(self.hours, *hour));
        let times = hours.flat_map(|hour| {
            (0..60)
                .filter(|minute| has(self.minutes, *minute))
                .filter_map(move |minute| date.and_hms_opt(hour, minute, 0))
        });
        let mut moments: Vec<_> = times.flat_map(|time| self.moments(time)).collect();
        moments.sort_unstable();
        moments.dedup();
        moments
    }

    /// When the clock shows a time, as far as that is due.
    fn moments(&self, time: NaiveDateTime) -> Vec<DateTime<Utc>> {
        match self.zone.from_local_datetime(&time) {
            LocalResult::Single(moment) => vec![moment.to_utc()],
            LocalResult::Ambiguous(first, second) if self.any_hour => {
                vec![first.to_utc(), second.to_utc()]
            }
            LocalResult::Ambiguous(first, _) => vec![first.to_utc()],
            LocalResult::None if self.any_hour => Vec::new(),
            LocalResult::None => self.after_gap(time).into_iter().collect(),
        }
    }

    /// The moment when a clock that leaves a time out goes on. No gap is longer than a day.
    fn after_gap(&self, time: NaiveDateTime) -> Option<DateTime<Utc>> {
        let later = (1..=24 * 60).map(|minutes| time + TimeDelta::minutes(minutes));
        let shown = later.filter_map(|time| self.zone.from_local_datetime(&time).earliest());
        shown.map(|moment| moment.to_utc()).next()
    }
}

const fn has(set: u64, number: u32) -> bool {
    number < 64 && set & (1 << number) != 0
}

/// The numbers that a field names.
fn field(text: &str, bounds: (u32, u32), names: &[&str]) -> Option<u64> {
    text.split(',').try_fold(0, |set, item| Some(set | numbers(item, bounds, names)?))
}

fn numbers(item: &str, (least, most): (u32, u32), names: &[&str]) -> Option<u64> {
    let (range, step) = match item.split_once('/') {
        Some((range, step)) => (range, Some(digits(step).filter(|step| *step > 0)?)),
        None => (item, None),
    };
    let number = |text: &str| number(text, least, names).filter(|n| (least..=most).contains(n));
    let (first, last) = match range.split_once('-') {
        // Sunday as 7 would name it twice.
        None if range == "*" => (least, most),
        Some((first, last)) => (number(first)?, number(last)?),
        None if step.is_some() => return None,
        None => (number(range)?, number(range)?),
    };
    let step = usize::try_from(step.unwrap_or(1)).ok()?;
    let named = (first <= last).then(|| (first..=last).step_by(step))?;
    Some(named.fold(0, |set, number| set | (1 << number)))
}

fn number(text: &str, least: u32, names: &[&str]) -> Option<u32> {
    let place = names.iter().position(|name| name.eq_ignore_ascii_case(text));
    match place {
        Some(place) => u32::try_from(place).ok().map(|place| place + least),
        None => digits(text),
    }
}

/// A number of one or two digits.
fn digits(text: &str) -> Option<u32> {
    let plain = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn moment(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    /// The next due times after a moment.
    fn due(cron: &str, zone: &str, after: &str, n: usize) -> Vec<String> {
        let cadence = Cadence::parse(cron, zone).unwrap();
        let next = |time: &DateTime<Utc>| cadence.next_after(*time);
        let times = std::iter::successors(Some(moment(after)), next).skip(1).take(n);
        times.map(|time| time.format("%Y-%m-%dT%H:%MZ").to_string()).collect()
    }

    #[test]
    fn a_due_time_is_the_next_minute_that_fits_every_field() {
        for (cron, next) in [
            ("* * * * *", "2026-01-31T09:31Z"),
            ("*/15 * * * *", "2026-01-31T09:45Z"),
            ("0 9-17/4 * * *", "2026-01-31T13:00Z"),
            ("30 9 * * *", "2026-02-01T09:30Z"),
            ("5,40 9 * * *", "2026-01-31T09:40Z"),
            ("0 0 1 * *", "2026-02-01T00:00Z"),
            ("0 12 * * MON-FRI", "2026-02-02T12:00Z"),
            ("0 12 * feb sun", "2026-02-01T12:00Z"),
            ("0 12 * * 7", "2026-02-01T12:00Z"),
            ("0 0 29 2 *", "2028-02-29T00:00Z"),
            ("0 0 13 * fri", "2026-02-06T00:00Z"),
            ("59 23 31 12 *", "2026-12-31T23:59Z"),
        ] {
            assert_eq!(due(cron, "UTC", "2026-01-31T09:30:20Z", 1), [next], "{cron}");
        }
    }

    #[test]
    fn a_date_that_never_comes_is_never_due() {
        assert_eq!(due("0 0 30 2 *", "UTC", "2026-01-31T09:30:20Z", 1), [""; 0]);
    }

    #[test]
    fn what_is_no_cadence_is_refused() {
        for cron in [
            "",
            "*",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * 32 * *",
            "* * * 13 *",
            "* * * * 8",
            "5-1 * * * *",
            "*/0 * * * *",
            "5/2 * * * *",
            "a * * * *",
            "1,,2 * * * *",
            "-1 * * * *",
            "+1 * * * *",
            "001 * * * *",
            "* * * foo *",
            "1- * * * *",
        ] {
            assert_eq!(Cadence::parse(cron, "UTC"), Err(BadCadence::Cron), "{cron}");
        }
        for zone in ["", "Mars/Olympus", "utc+1"] {
            assert_eq!(Cadence::parse("* * * * *", zone), Err(BadCadence::TimeZone), "{zone}");
        }
    }

    #[test]
    fn a_time_that_the_clock_leaves_out_is_due_when_it_goes_on() {
        // In Paris 02:00 becomes 03:00 on 29 March 2026.
        let times = due("30 2 * * *", "Europe/Paris", "2026-03-27T12:00:00Z", 3);
        assert_eq!(times, ["2026-03-28T01:30Z", "2026-03-29T01:00Z", "2026-03-30T00:30Z"]);
        // Two times of the gap are one.
        let times = due("0,30 2 * * *", "Europe/Paris", "2026-03-29T00:30:00Z", 2);
        assert_eq!(times, ["2026-03-29T01:00Z", "2026-03-30T00:00Z"]);
    }

    #[test]
    fn a_time_that_the_clock_shows_twice_is_due_the_first_time() {
        // In Paris 03:00 becomes 02:00 on 25 October 2026.
        let times = due("30 2 * * *", "Europe/Paris", "2026-10-24T12:00:00Z", 2);
        assert_eq!(times, ["2026-10-25T00:30Z", "2026-10-26T01:30Z"]);
    }

    #[test]
    fn what_names_no_time_of_day_is_due_at_equal_distances_all_night() {
        let spring = due("*/30 * * * *", "Europe/Paris", "2026-03-29T00:00:00Z", 4);
        assert_eq!(
            spring,
            ["2026-03-29T00:30Z", "2026-03-29T01:00Z", "2026-03-29T01:30Z", "2026-03-29T02:00Z"]
        );
        let autumn = due("0 * * * *", "Europe/Paris", "2026-10-24T23:00:00Z", 4);
        assert_eq!(
            autumn,
            ["2026-10-25T00:00Z", "2026-10-25T01:00Z", "2026-10-25T02:00Z", "2026-10-25T03:00Z"]
        );
    }

    #[test]
    fn a_day_that_a_zone_leaves_out_is_due_at_its_end() {
        // Apia had no 30 December 2011.
        let times = due("0 9 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", 2);
        assert_eq!(times, ["2011-12-30T10:00Z", "2012-12-29T19:00Z"]);
    }

    proptest! {
        #[test]
        fn due_times_only_grow(
            minute in 0..60u32, hour in 0..24u32, start in 0..4_000_000_000i64, zone in 0..5usize,
        ) {
            let zones = ["UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"];
            let after = DateTime::from_timestamp(start, 0).unwrap();
            for cron in [format!("{minute} {hour} * * *"), format!("{minute} * * * *")] {
                let cadence = Cadence::parse(&cron, zones[zone]).unwrap();
                let next = cadence.next_after(after).unwrap();
                prop_assert!(next > after);
                prop_assert!(next - after <= TimeDelta::hours(49));
                // Nothing is due in between.
                prop_assert_eq!(cadence.next_after(next - TimeDelta::seconds(1)), Some(next));
            }
        }
    }
}
