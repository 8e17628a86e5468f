//! Columns of text that stand below each other.
use super::terminal::Paint;

/// Rows below a head; the last column is not filled up.
pub fn table(head: &[&str], rows: &[Vec<String>], paint: Paint) -> String {
    let mut widths: Vec<usize> = head.iter().map(|it| width(it)).collect();
    for row in rows {
        for (at, cell) in row.iter().enumerate().take(widths.len()) {
            widths[at] = widths[at].max(width(cell));
        }
    }
    let mut out = paint.bold(&line(head.iter().copied(), &widths));
    out.push('\n');
    for row in rows {
        out.push_str(&line(row.iter().map(String::as_str), &widths));
        out.push('\n');
    }
    out
}

fn line<'a>(cells: impl Iterator<Item = &'a str>, widths: &[usize]) -> String {
    let mut out = String::new();
    for (cell, wide) in cells.zip(widths) {
        out.push_str(cell);
        out.push_str(&" ".repeat(wide - width(cell).min(*wide) + 2));
    }
    out.truncate(out.trim_end().len());
    out
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_stand_below_each_other_and_no_line_ends_with_spaces() {
        let rows = [vec!["GET".to_owned(), "/é".to_owned(), String::new()], vec!["*".to_owned(), "/long/path".to_owned(), "x".to_owned()]];
        let shown = super::table(&["M", "PATH", "T"], &rows, super::Paint { on: false });
        assert_eq!(shown, "M    PATH        T\nGET  /é\n*    /long/path  x\n");
    }
}
