//! Files and folders of a crate that name each other in a circle, as far as paths tell.

use std::collections::{BTreeMap, VecDeque};

use super::{
    Violation,
    source::{Import, Source},
};

/// The path of a module from the root of its crate.
type Module = Vec<String>;

/// Paths that lead through more imports than this lead nowhere.
const MOST_IMPORTS: usize = 16;

/// A crate, file by file.
struct Crate<'a>(BTreeMap<Module, File<'a>>);

struct File<'a> {
    source: &'a Source,
    imports: Vec<Import>,
}

/// A violation for the shortest circle through each file that is in one. The root of the crate is a folder, such as
/// `operator/core/src`.
pub fn circles(root: &str, sources: &[Source]) -> Vec<Violation> {
    let all = Crate::of(root, sources);
    let arrows = all.all_arrows();
    let name = |module: &Module| all.0[module].source.name.clone();
    let circle = |start: &Module| {
        let names: Vec<String> = shortest_circle(&arrows, start)?.iter().map(name).collect();
        let rule = format!("files of {root} import each other in a circle: {}", names.join(" -> "));
        Some(Violation { file: name(start), line: 1, rule })
    };
    all.0.keys().filter_map(circle).collect()
}

/// The same of folders. A module counts with all that is below it, and is compared with the modules beside it: what
/// a module exchanges with those that contain it is left to [`circles`]. Arrows from a file of the list to the module
/// beside it do not count; one that is not there is a violation.
pub fn folder_circles(root: &str, sources: &[Source], tolerated: &[(&str, &str)]) -> Vec<Violation> {
    let all = Crate::of(root, sources);
    let is_tolerated = |(file, to): (&str, &str), arrow: (&Module, &Module)| {
        all.0[arrow.0].source.name.ends_with(file) && arrow.1.join("/").starts_with(to)
    };
    let mut needed = vec![false; tolerated.len()];
    let mut arrows: BTreeMap<Module, Vec<Module>> = BTreeMap::new();
    for (from, to) in all.all_arrows().iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to))) {
        if let Some(found) = tolerated.iter().position(|arrow| is_tolerated(*arrow, (from, to))) {
            needed[found] = true;
            continue;
        }
        let shared = from.iter().zip(to).take_while(|(from, to)| from == to).count();
        if shared < from.len() && shared < to.len() {
            arrows.entry(from[..=shared].to_vec()).or_default().push(to[..=shared].to_vec());
        }
    }
    let name = |module: &Module| format!("{root}/{}", module.join("/"));
    let circle = |start: &Module| {
        let names: Vec<String> = shortest_circle(&arrows, start)?.iter().map(name).collect();
        let rule = format!("modules of {root} import each other in a circle: {}", names.join(" -> "));
        Some(Violation { file: name(start), line: 1, rule })
    };
    let unused = tolerated.iter().zip(needed).filter(|(_, is_needed)| !is_needed).map(|((file, to), _)| {
        let rule = format!("no longer names {to}: take it from the list of tolerated arrows");
        Violation { file: (*file).to_owned(), line: 1, rule }
    });
    arrows.keys().filter_map(circle).chain(unused).collect()
}

/// The modules from a file back to itself.
fn shortest_circle(arrows: &BTreeMap<Module, Vec<Module>>, start: &Module) -> Option<Vec<Module>> {
    let mut ways = VecDeque::from([vec![start.clone()]]);
    let mut seen: Vec<Module> = Vec::new();
    while let Some(way) = ways.pop_front() {
        for next in arrows.get(way.last()?).into_iter().flatten() {
            let longer: Vec<Module> = way.iter().chain([next]).cloned().collect();
            if next == start {
                return Some(longer);
            }
            if !seen.contains(next) {
                seen.push(next.clone());
                ways.push_back(longer);
            }
        }
    }
    None
}

fn module(root: &str, name: &str) -> Module {
    let path = name.trim_start_matches(root).trim_start_matches('/').trim_end_matches(".rs");
    let mut parts: Module = path.split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        parts.pop();
    }
    parts
}

impl<'a> Crate<'a> {
    fn of(root: &str, sources: &'a [Source]) -> Self {
        let files = sources.iter().filter(|source| !source.is_test());
        Self(files.map(|source| (module(root, &source.name), File { source, imports: source.imports() })).collect())
    }

    fn all_arrows(&self) -> BTreeMap<Module, Vec<Module>> {
        self.0.keys().map(|module| (module.clone(), self.arrows(module))).collect()
    }

    /// Files that a file names. What it only hands on is not an arrow: those who take it from here name the other file.
    fn arrows(&self, of: &Module) -> Vec<Module> {
        let file = &self.0[of];
        let imported = file.imports.iter().filter(|import| !import.is_public).map(|import| segments(&import.path).0);
        let named = file.source.paths();
        let named = named.iter().map(|path| segments(path).0);
        let mut found: Vec<Module> = imported.chain(named).filter_map(|path| self.file_of(of, &path, 0)).collect();
        found.sort();
        found.dedup();
        found.retain(|module| module != of);
        found
    }

    /// The file that declares the item of a path; absent for a path that ends with a module, and for those of other
    /// crates.
    fn file_of(&self, at: &Module, path: &[String], imports: usize) -> Option<Module> {
        if imports > MOST_IMPORTS {
            return None;
        }
        let mut module = at.clone();
        let mut rest = path;
        match rest.first()?.as_str() {
            "crate" => (module, rest) = (Module::new(), &rest[1..]),
            "self" => rest = &rest[1..],
            "super" => {}
            name if self.0.contains_key(&below(at, name)) => {}
            name => return self.imported(at, name, (&rest[1..], imports)),
        }
        while let Some((name, after)) = rest.split_first() {
            if name == "super" {
                module.pop();
            } else if self.0.contains_key(&below(&module, name)) {
                module.push(name.clone());
            } else {
                return self.imported(&module, name, (after, imports)).or(Some(module));
            }
            rest = after;
        }
        None
    }

    /// The file of what a module has imported under a name.
    fn imported(&self, module: &Module, name: &str, (after, imports): (&[String], usize)) -> Option<Module> {
        let of = |import: &Import| {
            let (path, known_as) = segments(&import.path);
            (known_as == name).then_some(path)
        };
        let path = self.0[module].imports.iter().find_map(of)?;
        // `use slipway_crds` and the like lead out of the crate.
        let is_own = path.first().map(String::as_str) != Some(name);
        let path: Vec<String> = path.into_iter().chain(after.iter().cloned()).collect();
        is_own.then(|| self.file_of(module, &path, imports + 1)).flatten()
    }
}

fn below(module: &Module, name: &str) -> Module {
    module.iter().cloned().chain([name.to_owned()]).collect()
}

/// The parts of a path, and the name by which its item is known here.
fn segments(path: &str) -> (Vec<String>, String) {
    let (path, known_as) = path.split_once(" as ").map_or((path, None), |(path, name)| (path, Some(name.trim())));
    let mut parts: Vec<String> = path.split("::").map(|part| part.trim().to_owned()).collect();
    parts.retain(|part| !part.is_empty());
    if parts.len() > 1 && parts.last().is_some_and(|last| last == "self") {
        parts.pop();
    }
    let last = parts.last().cloned().unwrap_or_default();
    (parts, known_as.map_or(last, str::to_owned))
}
