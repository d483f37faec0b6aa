// strftime without the C library: no locale, no time zone, the same on every platform.
#include <array>
#include <string>

#include "text/jinja/builtins.h"

namespace banter::text::jinja {

namespace {

struct Moment {
  int64_t year;
  int month, day;  // 1-based
  int hour, minute, second;
  int weekday;   // 0 = Sunday
  int year_day;  // 0-based
};

constexpr const char* kMonths[] = {"January", "February", "March",     "April",   "May",      "June",
                                   "July",    "August",   "September", "October", "November", "December"};
constexpr const char* kDays[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};

bool is_leap(int64_t year) {
  return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

int64_t floor_divide(int64_t a, int64_t b) {
  return a / b - ((a % b != 0 && (a % b < 0) != (b < 0)) ? 1 : 0);
}

/** Gregorian calendar date of days since 1970-01-01, counted in 400-year eras that begin on 1 March. */
Moment moment_of(int64_t unix_seconds) {
  const int64_t days = floor_divide(unix_seconds, 86400);
  const auto rest = static_cast<int>(unix_seconds - days * 86400);
  const int64_t since_march = days + 719468;  // days from 0000-03-01 to 1970-01-01
  const int64_t era = floor_divide(since_march, 146097);
  const int64_t of_era = since_march - era * 146097;
  const int64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  const int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t march_month = (5 * of_year + 2) / 153;
  Moment m{};
  m.day = static_cast<int>(of_year - (153 * march_month + 2) / 5 + 1);
  m.month = static_cast<int>(march_month < 10 ? march_month + 3 : march_month - 9);
  m.year = year_of_era + era * 400 + (m.month <= 2 ? 1 : 0);
  m.hour = rest / 3600;
  m.minute = rest / 60 % 60;
  m.second = rest % 60;
  m.weekday = static_cast<int>(((days + 4) % 7 + 7) % 7);
  constexpr std::array<int, 12> kBefore = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
  m.year_day = kBefore[static_cast<size_t>(m.month - 1)] + m.day - 1 + (m.month > 2 && is_leap(m.year) ? 1 : 0);
  return m;
}

/** ISO 8601 week number; `*year` is the year that the week belongs to. */
int iso_week(const Moment& m, int64_t* year) {
  const int monday_based = (m.weekday + 6) % 7;
  int week = (m.year_day - monday_based + 10) / 7;
  *year = m.year;
  const auto weeks_in = [](int64_t y) {
    const auto last_day = [](int64_t v) { return ((v + v / 4 - v / 100 + v / 400) % 7 + 7) % 7; };
    return last_day(y) == 4 || last_day(y - 1) == 3 ? 53 : 52;
  };
  if (week < 1) {
    --*year;
    week = weeks_in(*year);
  } else if (week > weeks_in(m.year)) {
    ++*year;
    week = 1;
  }
  return week;
}

/** One conversion with glibc's flags: '-' no padding, '_' blanks, '0' zeros, '^' upper case. */
class Writer {
 public:
  Writer(char flag, std::string* out) : flag_(flag), out_(out) {}

  void number(int64_t value, int width, char fill) {
    if (flag_ == '_') fill = ' ';
    if (flag_ == '0') fill = '0';
    std::string digits = std::to_string(value < 0 ? -value : value);
    if (flag_ != '-') {
      while (static_cast<int>(digits.size()) < width) digits.insert(digits.begin(), fill);
    }
    if (value < 0) digits.insert(digits.begin(), '-');
    *out_ += digits;
  }
  void words(std::string text) {
    for (char& c : text) {
      if (flag_ == '^' && c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
    }
    *out_ += text;
  }

 private:
  char flag_;
  std::string* out_;
};

int hour12(const Moment& m) {
  return m.hour % 12 == 0 ? 12 : m.hour % 12;
}

bool write_name(char c, const Moment& m, Writer& w) {
  switch (c) {
    case 'a':
      w.words(std::string(kDays[m.weekday]).substr(0, 3));
      return true;
    case 'A':
      w.words(kDays[m.weekday]);
      return true;
    case 'b':
    case 'h':
      w.words(std::string(kMonths[m.month - 1]).substr(0, 3));
      return true;
    case 'B':
      w.words(kMonths[m.month - 1]);
      return true;
    case 'p':
      w.words(m.hour < 12 ? "AM" : "PM");
      return true;
    case 'P':
      w.words(m.hour < 12 ? "am" : "pm");
      return true;
    case 'n':
      w.words("\n");
      return true;
    case 't':
      w.words("\t");
      return true;
    case '%':
      w.words("%");
      return true;
    case 'z':
    case 'Z':
      return true;  // a time without zone
    default:
      return false;
  }
}

bool write_date(char c, const Moment& m, int64_t unix_seconds, Writer& w) {
  int64_t week_year = 0;
  const int week = iso_week(m, &week_year);
  switch (c) {
    case 'd':
      w.number(m.day, 2, '0');
      return true;
    case 'e':
      w.number(m.day, 2, ' ');
      return true;
    case 'm':
      w.number(m.month, 2, '0');
      return true;
    case 'Y':
      w.number(m.year, 1, '0');
      return true;
    case 'y':
      w.number(((m.year % 100) + 100) % 100, 2, '0');
      return true;
    case 'C':
      w.number(floor_divide(m.year, 100), 2, '0');
      return true;
    case 'H':
      w.number(m.hour, 2, '0');
      return true;
    case 'k':
      w.number(m.hour, 2, ' ');
      return true;
    case 'I':
      w.number(hour12(m), 2, '0');
      return true;
    case 'l':
      w.number(hour12(m), 2, ' ');
      return true;
    case 'M':
      w.number(m.minute, 2, '0');
      return true;
    case 'S':
      w.number(m.second, 2, '0');
      return true;
    case 'f':
      w.number(0, 6, '0');
      return true;
    case 'j':
      w.number(m.year_day + 1, 3, '0');
      return true;
    case 'w':
      w.number(m.weekday, 1, '0');
      return true;
    case 'u':
      w.number(m.weekday == 0 ? 7 : m.weekday, 1, '0');
      return true;
    case 'U':
      w.number((m.year_day + 7 - m.weekday) / 7, 2, '0');
      return true;
    case 'W':
      w.number((m.year_day + 7 - (m.weekday + 6) % 7) / 7, 2, '0');
      return true;
    case 'V':
      w.number(week, 2, '0');
      return true;
    case 'G':
      w.number(week_year, 1, '0');
      return true;
    case 'g':
      w.number(((week_year % 100) + 100) % 100, 2, '0');
      return true;
    case 's':
      w.number(unix_seconds, 1, '0');
      return true;
    default:
      return false;
  }
}

/** Conversions that stand for several others. */
const char* expansion(char c) {
  switch (c) {
    case 'c':
      return "%a %b %e %H:%M:%S %Y";
    case 'D':
    case 'x':
      return "%m/%d/%y";
    case 'F':
      return "%Y-%m-%d";
    case 'r':
      return "%I:%M:%S %p";
    case 'R':
      return "%H:%M";
    case 'T':
    case 'X':
      return "%H:%M:%S";
    default:
      return nullptr;
  }
}

void append_time(std::string_view format, const Moment& m, int64_t unix_seconds, std::string* out) {
  for (size_t i = 0; i < format.size(); ++i) {
    const size_t start = i;
    if (format[i] != '%' || i + 1 >= format.size()) {
      out->push_back(format[i]);
      continue;
    }
    char flag = '\0';
    char c = format[++i];
    if ((c == '-' || c == '_' || c == '0' || c == '^') && i + 1 < format.size()) {
      flag = c;
      c = format[++i];
    }
    Writer writer(flag, out);
    if (const char* longer = expansion(c)) {
      append_time(longer, m, unix_seconds, out);  // one level: expansions name only simple conversions
    } else if (!write_name(c, m, writer) && !write_date(c, m, unix_seconds, writer)) {
      *out += format.substr(start, i - start + 1);
    }
  }
}

}  // namespace

std::string format_time(std::string_view format, int64_t unix_seconds) {
  constexpr int64_t kLimit = 253402300799;  // the end of the year 9999
  unix_seconds = unix_seconds < -kLimit ? -kLimit : unix_seconds > kLimit ? kLimit : unix_seconds;
  std::string out;
  append_time(format, moment_of(unix_seconds), unix_seconds, &out);
  return out;
}

}  // namespace banter::text::jinja
