//! How one text is masked: what each preset leaves of it.

/// What becomes of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mask {
    Phone,
    IdCard,
    Email,
    BankCard,
    Name,
    Address,
    Plate,
    /// This many characters stay at the beginning and at the end; of a text that is no longer than both together, none.
    Keep(usize, usize),
    /// This text stands in its place.
    Fixed(Box<str>),
    /// The field goes away.
    Remove,
    /// A digest, the same for the same value.
    Hash,
}

/// The presets that take nothing more than their word.
pub const WORDS: [(&str, Mask); 9] = [
    ("phone", Mask::Phone),
    ("id_card", Mask::IdCard),
    ("email", Mask::Email),
    ("bank_card", Mask::BankCard),
    ("name", Mask::Name),
    ("address", Mask::Address),
    ("plate", Mask::Plate),
    ("remove", Mask::Remove),
    ("hash", Mask::Hash),
];

impl Mask {
    /// Appends what is left of `text`, for the masks that leave some of it.
    pub fn text(&self, text: &str, out: &mut String) {
        match self {
            Self::Phone => phone(text, out),
            Self::IdCard => {
                let count = text.chars().count();
                if count >= 15 { keep(text, 6, 4, out) } else { keep(text, 1, 1, out) }
            }
            Self::Email => match text.rsplit_once('@') {
                Some((user, domain)) if !domain.is_empty() => {
                    if user.chars().nth(1).is_some() {
                        out.extend(user.chars().next());
                    }
                    out.push_str("***@");
                    out.push_str(domain);
                }
                _ => keep(text, 1, 0, out),
            },
            Self::BankCard => card(text, out),
            Self::Name => keep(text, 1, 0, out),
            Self::Address => {
                let count = text.chars().count();
                keep(text, 6.min(count / 2), 0, out);
            }
            Self::Plate => {
                let count = text.chars().count();
                if count >= 6 { keep(text, 3, 1, out) } else { keep(text, 0, 0, out) }
            }
            Self::Keep(first, last) => keep(text, *first, *last, out),
            Self::Fixed(it) => out.push_str(it),
            Self::Remove | Self::Hash => (),
        }
    }
}

fn keep(text: &str, first: usize, last: usize, out: &mut String) {
    let count = text.chars().count();
    let whole = first + last >= count;
    for (at, it) in text.chars().enumerate() {
        out.push(if !whole && (at < first || at >= count - last) { it } else { '*' });
    }
}

/// A digit, full-width ones too, as forms in Chinese hold them.
fn is_digit(it: char) -> bool {
    it.is_ascii_digit() || ('\u{ff10}'..='\u{ff19}').contains(&it)
}

/// Digits between `first` and the last `last` become stars; what groups them stays. A text that holds letters is none, and nothing of it stays.
fn digits(text: &str, first: usize, last: usize, out: &mut String) {
    if text.chars().any(char::is_alphabetic) {
        return keep(text, 0, 0, out);
    }
    let count = text.chars().filter(|it| is_digit(*it)).count();
    let mut seen = 0;
    for it in text.chars() {
        if !is_digit(it) {
            out.push(it);
            continue;
        }
        out.push(if seen < first || seen + last >= count { it } else { '*' });
        seen += 1;
    }
}

/// The four digits before the last four: of `13812345678`, of `+86 138-1234-5678` and of `0755-26712345` alike.
fn phone(text: &str, out: &mut String) {
    let count = text.chars().filter(|it| is_digit(*it)).count();
    match count {
        0..=4 => digits(text, 0, 0, out),
        5..=7 => digits(text, 0, 2, out),
        _ => digits(text, count - 8, 4, out),
    }
}

fn card(text: &str, out: &mut String) {
    let count = text.chars().filter(|it| is_digit(*it)).count();
    match count {
        12.. => digits(text, 4, 4, out),
        8.. => digits(text, 0, 4, out),
        _ => digits(text, 0, 0, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_preset_leaves_what_it_says() {
        for (mask, text, left) in [
            (Mask::Phone, "13812345678", "138****5678"),
            (Mask::Phone, "+86 138-1234-5678", "+86 138-****-5678"),
            (Mask::Phone, "008613812345678", "0086138****5678"),
            (Mask::Phone, "0755-26712345", "0755-****2345"),
            (Mask::Phone, "１３８１２３４５６７８", "１３８****５６７８"),
            (Mask::Phone, "95588", "***88"),
            (Mask::Phone, "110", "***"),
            (Mask::Phone, "王伟 13812345678", "**************"),
            (Mask::Phone, "", ""),
            (Mask::IdCard, "11010119900307123X", "110101********123X"),
            (Mask::IdCard, "110101900307123", "110101*****7123"),
            (Mask::IdCard, "E12345678", "E*******8"),
            (Mask::IdCard, "1", "*"),
            (Mask::Email, "zhang.wei@example.com", "z***@example.com"),
            (Mask::Email, "z@example.com", "***@example.com"),
            (Mask::Email, "王伟@例子.中国", "王***@例子.中国"),
            (Mask::Email, "not an address", "n*************"),
            (Mask::BankCard, "6222021234567890123", "6222***********0123"),
            (Mask::BankCard, "6222 0212 3456 7890", "6222 **** **** 7890"),
            (Mask::BankCard, "12345678", "****5678"),
            (Mask::BankCard, "1234", "****"),
            (Mask::Name, "王伟", "王*"),
            (Mask::Name, "欧阳娜娜", "欧***"),
            (Mask::Name, "王", "*"),
            (Mask::Name, "Ana María", "A********"),
            (Mask::Name, "𠮷田", "𠮷*"),
            (Mask::Address, "广东省深圳市南山区科技园1号楼", "广东省深圳市*********"),
            (Mask::Address, "深圳湾", "深**"),
            (Mask::Plate, "粤B12345", "粤B1***5"),
            (Mask::Plate, "粤BD12345", "粤BD****5"),
            (Mask::Plate, "粤B1", "***"),
            (Mask::Keep(2, 1), "abcdef", "ab***f"),
            (Mask::Keep(3, 3), "abcdef", "******"),
            (Mask::Fixed("已隐藏".into()), "x", "已隐藏"),
        ] {
            let mut out = String::new();
            mask.text(text, &mut out);
            assert_eq!(out, left, "{mask:?} of {text}");
        }
    }
}
