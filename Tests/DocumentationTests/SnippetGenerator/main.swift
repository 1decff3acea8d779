import Foundation

// Makes Swift files from the pages of documentation and from the documentation comments of modules. SnippetPlugin compiles it,
// together with the files of Snippets, and runs it.
//
//     SnippetGenerator ROOT LIST [PAGE|MODULE SOURCE]…

let arguments = CommandLine.arguments.dropFirst()
guard arguments.count >= 2, arguments.count.isMultiple(of: 2) else {
    print("error: usage: SnippetGenerator ROOT LIST [PAGE|MODULE SOURCE]…")
    exit(2)
}
let root = URL(filePath: arguments[1])
var pages: [(page: MarkdownPage, name: String)] = []

/// Writes a file unless it is unchanged, so that it is not compiled again.
func write(_ text: String, to path: String) throws {
    guard (try? String(contentsOfFile: path, encoding: .utf8)) != text else { return }
    try text.write(toFile: path, atomically: true, encoding: .utf8)
}

do {
    for index in stride(from: 3, to: arguments.endIndex, by: 2) {
        guard arguments[index].hasSuffix(".md") else {
            try write(Source.text(ofComments: arguments[index], root: root), to: arguments[index + 1])
            continue
        }
        let page = try MarkdownPage(path: arguments[index], root: root)
        let name = URL(filePath: arguments[index + 1]).deletingPathExtension().lastPathComponent
        pages.append((page, name))
        try write(Source(page, name: name, root: root).text, to: arguments[index + 1])
    }
    try write(Source.list(pages), to: arguments[2])
} catch {
    print("error: \(error)")
    exit(1)
}
