//! Pictures of an index, as SVG in plain ASCII, so that they are what they are in any encoding.
//!
//! Nothing here allocates: what is drawn is written to where the caller wants it.

mod map;
mod page;

pub use map::{MapView, draw_map};
pub use page::{Named, PageView, draw_named, draw_page};

use core::fmt::{self, Arguments, Display, Formatter, Write};

/// Width of all pictures.
const WIDTH: f64 = 1200.0;
/// What is left free at their edges.
const MARGIN: f64 = 28.0;

/// The colours, and how the kinds of text look.
const STYLE: &str = "\
text{font-family:Inter,'Helvetica Neue',Helvetica,Arial,'Liberation Sans',sans-serif;fill:#1f2933}\
.t{font-size:23px;font-weight:600}\
.s{font-size:14px;fill:#52606d}\
.b{font-size:13px;font-weight:600}\
.l{font-size:12px;fill:#52606d}\
.k{font-size:11px;fill:#3e4c59}\
.m{font-family:'JetBrains Mono','DejaVu Sans Mono',Menlo,Consolas,monospace}\
.w{fill:#fff}\
.c{text-anchor:middle}\
.r{text-anchor:end}\
.card{fill:#fff;stroke:#d9e2ec}\
.free{fill:#e4ebf2}\
.root{fill:#486581}\
.rest{fill:#bcccdc}\
.head{fill:#4098d7}\
.tid{fill:#54b3a3}\
.cell{fill:#f0b429}\
.lost{fill:#fae3b0}\
.dead{fill:#d64545}\
.line{fill:none;stroke:#9fb3c8}\
.edge{fill:none;stroke:#829ab1}";

/// A picture being written.
struct Svg<'o> {
    out: &'o mut dyn Write,
}

/// A rectangle.
#[derive(Clone, Copy)]
struct Area {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

impl Area {
    fn new(x: f64, y: f64, width: f64, height: f64) -> Area {
        Area { x, y, width, height }
    }
}

impl<'o> Svg<'o> {
    /// Begins a picture of this height.
    fn begin(out: &'o mut dyn Write, height: f64, title: Arguments<'_>) -> Result<Svg<'o>, fmt::Error> {
        write!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" \
             height=\"{height:.0}\" role=\"img\">\n<title>"
        )?;
        Escaping(out).write_fmt(title)?;
        write!(out, "</title>\n<style>{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#f8fafc\"/>\n")?;
        Ok(Svg { out })
    }

    fn end(self) -> fmt::Result {
        self.out.write_str("</svg>\n")
    }

    /// Puts markup as it is.
    fn put(&mut self, markup: Arguments<'_>) -> fmt::Result {
        self.out.write_fmt(markup)
    }

    /// The name and what is said of the whole.
    fn heading(&mut self, name: &str, about: Arguments<'_>) -> fmt::Result {
        self.text("t", MARGIN, 46.0, format_args!("{}", Short(name, 60)))?;
        self.text("s", MARGIN, 72.0, about)
    }

    /// Text at a place, of these classes.
    fn text(&mut self, class: &str, x: f64, y: f64, text: Arguments<'_>) -> fmt::Result {
        write!(self.out, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">")?;
        Escaping(self.out).write_fmt(text)?;
        self.out.write_str("</text>\n")
    }

    /// A rectangle of these classes, with round corners.
    fn rect(&mut self, class: &str, area: Area, radius: f64) -> fmt::Result {
        let Area { x, y, width, height } = area;
        if width < 0.05 || height < 0.05 {
            return Ok(());
        }
        write!(
            self.out,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\""
        )?;
        if radius > 0.0 {
            write!(self.out, " rx=\"{radius:.1}\"")?;
        }
        self.out.write_str("/>\n")
    }

    /// Begins a group that shows a text when pointed at.
    fn begin_group(&mut self, title: Arguments<'_>) -> fmt::Result {
        self.out.write_str("<g><title>")?;
        Escaping(self.out).write_fmt(title)?;
        self.out.write_str("</title>\n")
    }

    fn end_group(&mut self) -> fmt::Result {
        self.out.write_str("</g>\n")
    }

    /// What colours mean, from a place on to the right; where there is room for more.
    fn legend(&mut self, x: f64, y: f64, items: &[(&str, &str)]) -> Result<f64, fmt::Error> {
        let mut at = x;
        for (class, meaning) in items {
            self.rect(class, Area::new(at, y - 10.0, 14.0, 12.0), 2.0)?;
            self.text("l", at + 20.0, y, format_args!("{meaning}"))?;
            // Letters of this size are about so wide.
            at += 44.0 + 6.1 * meaning.chars().count() as f64;
        }
        Ok(at)
    }
}

/// Writes text as XML has it: what is no ASCII as references, what XML has no place for as the mark of what is unknown.
struct Escaping<'o>(&'o mut dyn Write);

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|letter| match letter {
            '&' => self.0.write_str("&amp;"),
            '<' => self.0.write_str("&lt;"),
            '>' => self.0.write_str("&gt;"),
            '"' => self.0.write_str("&quot;"),
            ' '..='~' => self.0.write_char(letter),
            '\t' | '\n' | '\r' => self.0.write_char(' '),
            '\0'..' ' | '\u{7f}'..'\u{a0}' | '\u{fffe}' | '\u{ffff}' => self.0.write_str("&#65533;"),
            _ => write!(self.0, "&#{};", letter as u32),
        })
    }
}

/// The first letters of a text, and whether there are more.
struct Short<'t>(&'t str, usize);

impl Display for Short<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(self.1) {
            None => f.write_str(self.0),
            Some(_) => {
                let end = self.0.char_indices().nth(self.1.saturating_sub(1)).map_or(0, |(end, _)| end);
                f.write_str(&self.0[..end])?;
                f.write_str("\u{2026}")
            }
        }
    }
}

/// A number, its digits in threes.
struct Number(u64);

impl Display for Number {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (mut divisor, mut rest) = (1u64, self.0);
        while rest / divisor >= 1000 {
            divisor *= 1000;
        }
        write!(f, "{}", rest / divisor)?;
        while divisor > 1 {
            rest %= divisor;
            divisor /= 1000;
            write!(f, "\u{2009}{:03}", rest / divisor)?;
        }
        Ok(())
    }
}

/// How many of something: its name in the singular, an "s" is put behind it.
struct Many(u64, &'static str);

impl Display for Many {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let plural = if self.0 == 1 { "" } else { "s" };
        write!(f, "{} {}{plural}", Number(self.0), self.1)
    }
}

/// Part of a whole, in percent.
struct Percent(f64);

impl Display for Percent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}\u{2009}%", 100.0 * self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(text: &str) -> String {
        let mut out = String::new();
        Escaping(&mut out).write_str(text).expect("a string takes all");
        out
    }

    #[test]
    fn text_is_ascii_that_xml_has() {
        assert_eq!(escaped("a<b> & \"c\""), "a&lt;b&gt; &amp; &quot;c&quot;");
        assert_eq!(escaped("gr\u{fc}n \u{1f333}"), "gr&#252;n &#127795;");
        assert_eq!(escaped("\0\u{1b}\u{7f}\u{ffff}\t"), "&#65533;&#65533;&#65533;&#65533; ");
    }

    #[test]
    fn long_texts_are_cut_between_letters() {
        let short = |text, most| Short(text, most).to_string();
        assert_eq!(short("\u{e4}\u{f6}\u{fc}", 3), "\u{e4}\u{f6}\u{fc}");
        assert_eq!(short("\u{e4}\u{f6}\u{fc}\u{df}", 3), "\u{e4}\u{f6}\u{2026}");
        assert_eq!(short("", 3), "");
    }

    #[test]
    fn numbers_have_their_digits_in_threes() {
        let number = |number| Number(number).to_string().replace('\u{2009}', " ");
        for (is, shown) in [(0, "0"), (999, "999"), (1000, "1 000"), (1_002_003, "1 002 003")] {
            assert_eq!(number(is), shown);
        }
        assert_eq!(number(u64::MAX), "18 446 744 073 709 551 615");
        assert_eq!([1, 2].map(|count| Many(count, "page").to_string()), ["1 page", "2 pages"]);
    }
}
