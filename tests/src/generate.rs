//! Makes up any number of APIs, the same ones each time, with the mix of patterns that a real estate has.
use std::{fmt::Write, fs, io, path::Path};

/// How many APIs, and how they lie in files.
#[derive(Clone, Copy, Debug)]
pub struct Estate {
    pub apis: usize,
    /// APIs in one file; 1 is a file each.
    pub per_file: usize,
    /// Where the backends listen; the upstreams share them.
    pub backend: Option<std::net::SocketAddr>,
}

/// A request that one API of the estate serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    pub api: usize,
    pub method: &'static str,
    pub host: Option<String>,
    pub target: String,
}

const APIS_PER_UPSTREAM: usize = 50;
const RESOURCES: &[&str] = &["customers", "orders", "tickets", "parcels", "invoices", "members", "coupons", "stores", "agents", "calls"];

impl Estate {
    /// Writes the whole estate below a folder, in subfolders of at most a thousand files.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let write = |name: String, text: String| {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap_or(folder))?;
            fs::write(path, text)
        };
        write("upstreams.yaml".into(), self.upstreams())?;
        write("shared.yaml".into(), SHARED.into())?;
        let apis: Vec<usize> = (0..self.apis).collect();
        for (number, some) in apis.chunks(self.per_file.max(1)).enumerate() {
            let text = some.iter().map(|it| self.api(*it)).collect::<Vec<_>>().join("---\n");
            write(format!("apis/{:03}/{number:06}.yaml", number / 1000), text)?;
        }
        Ok(())
    }

    fn upstreams(&self) -> String {
        let address = self.backend.map_or_else(|| "127.0.0.1:9001".into(), |it| it.to_string());
        let one =
            |it| format!("kind: Upstream\nname: u-{it}\nnodes:\n  - {{address: {address}}}\ntimeouts: {{connect: 1s, first_byte: 15s}}\n");
        (0..self.apis.div_ceil(APIS_PER_UPSTREAM)).map(one).collect::<Vec<_>>().join("---\n")
    }

    /// One API, as YAML.
    pub fn api(&self, n: usize) -> String {
        let (resource, upstream) = (RESOURCES[n % RESOURCES.len()], n / APIS_PER_UPSTREAM);
        let mut text = format!(
            "kind: Api\ninfo:\n  name: api-{n}\n  version: v1\n  summary: {resource} of team {team}\n  owner: team-{team}\n  tags: [{resource}]\n",
            team = n % 97
        );
        let _ = write!(text, "inbound:\n  match: {}\n", pattern(n, resource));
        if captures(n) {
            text.push_str("  params:\n    id: {in: path, type: integer, minimum: 1}\n    page: {in: query, type: integer, minimum: 1, maximum: 50, default: 1}\n");
        }
        match n % 5 {
            0 => text.push_str("plugins:\n  - use: public-api\n"),
            1 => text.push_str("plugins:\n  - headers: {response: {set: {x-team: crm}}}\n  - ip-acl: {allow: [127.0.0.0/8, 10.0.0.0/8]}\n    when: \"request.method == 'POST'\"\n"),
            _ => {}
        }
        match n % 10 {
            7 => text.push_str("proxy:\n  respond: {status: 200, body: {ok: true}}\n"),
            _ if captures(n) => {
                let _ = write!(
                    text,
                    "proxy:\n  http: {{upstream: u-{upstream}, path: \"/internal/{resource}/${{params.id}}\"}}\n  send:\n    query: {{page: \"${{params.page}}\"}}\n  timeout: 2s\n"
                );
            }
            _ => {
                let _ = write!(text, "proxy:\n  http: {{upstream: u-{upstream}}}\n  timeout: 2s\n");
            }
        }
        text
    }

    /// A request for every API.
    pub fn example(&self, n: usize) -> Example {
        let resource = RESOURCES[n % RESOURCES.len()];
        let (host, path) = (host(n), path(n, resource));
        let host = host.map(|it| it.replace('*', "eu.west"));
        let target = path.replace("{id}", "42").replace("{rest...}", "a/b.css");
        Example { api: n, method: if n % 4 == 3 { "POST" } else { "GET" }, host, target }
    }
}

/// Half the APIs have captures, one in ten a rest.
fn captures(n: usize) -> bool {
    n.is_multiple_of(2)
}

fn host(n: usize) -> Option<String> {
    match n % 6 {
        0 | 1 => Some(format!("api-{}.example.com", n % 31)),
        2 => Some(format!("*.tenant-{}.example.com", n % 17)),
        _ => None,
    }
}

fn path(n: usize, resource: &str) -> String {
    match n % 10 {
        0 | 4 | 8 => format!("/v1/s{n}/{resource}/{{id}}"),
        2 | 6 => format!("/v1/s{n}/{resource}/{{id}}/history"),
        9 => format!("/files/s{n}/{{rest...}}"),
        1 => format!("/v2/{resource}/list-{n}"),
        _ => format!("/v1/{resource}/s{n}/search"),
    }
}

fn pattern(n: usize, resource: &str) -> String {
    let method = match n % 4 {
        3 => "POST ",
        2 => "GET,PUT,DELETE ",
        1 => "",
        _ => "GET ",
    };
    format!("{method}{}{}", host(n).unwrap_or_default(), path(n, resource))
}

const SHARED: &str = "kind: Preset
name: public-api
plugins:
  - cors: {origins: [\"https://*.example.com\"], max_age: 10m}
  - headers: {response: {set: {x-served-by: allium}, remove: [server]}}
";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const ESTATE: Estate = Estate { apis: 1000, per_file: 1, backend: None };

    #[test]
    fn every_pattern_is_another() {
        let patterns: HashSet<String> = (0..ESTATE.apis).map(|n| pattern(n, RESOURCES[n % RESOURCES.len()])).collect();
        assert_eq!(patterns.len(), ESTATE.apis);
    }

    #[test]
    fn the_same_estate_comes_out_each_time() {
        assert_eq!(ESTATE.api(77), ESTATE.api(77));
        assert!(ESTATE.api(42).contains("${params.id}"));
    }

    #[test]
    fn an_example_fits_its_pattern() {
        for n in 0..100 {
            let (it, pattern) = (ESTATE.example(n), pattern(n, RESOURCES[n % RESOURCES.len()]));
            assert!(!it.target.contains('{') && it.host.iter().all(|it| !it.contains('*')), "{it:?}");
            assert!(!pattern.contains(' ') || pattern.contains(it.method), "{pattern} {it:?}");
        }
    }
}
