import Testing

@testable import HTTPCore

@Suite struct ResponseLinkTests {
    @Test(
        arguments: [
            (
                #"</page?ids=1,2&number=2>; rel="next""#,
                [HTTPResponse.Link(url: "/page?ids=1,2&number=2", relations: ["next"])]
            ),
            (
                "<a>; rel=next, <b>;rel=prev",
                [HTTPResponse.Link(url: "a", relations: ["next"]), HTTPResponse.Link(url: "b", relations: ["prev"])]
            ),
            (
                #"<a>; rel="next LAST  https://x/y""#,
                [HTTPResponse.Link(url: "a", relations: ["next", "last", "https://x/y"])]
            ),
            (#"<a>; rel="next"; rel="prev""#, [HTTPResponse.Link(url: "a", relations: ["next"])]),
            (
                #" <a> ; REL = "next" ; title = "x, \"y\"; z" "#,
                [HTTPResponse.Link(url: "a", relations: ["next"], parameters: ["title": #"x, "y"; z"#])]
            ),
            ("<a>; rel=next; anchor=\"#foo\"", [HTTPResponse.Link(url: "a", relations: ["next"], anchor: "#foo")]),
            ("<a>", [HTTPResponse.Link(url: "a", relations: [])]),
            ("<>; rel=self", [HTTPResponse.Link(url: "", relations: ["self"])]),
            ("<a>;;; rel=next", [HTTPResponse.Link(url: "a", relations: ["next"])]),
            (
                "<a>; crossorigin; rel=preload",
                [HTTPResponse.Link(url: "a", relations: ["preload"], parameters: ["crossorigin": ""])]
            ),
            ("<a>; rel=\"next", [HTTPResponse.Link(url: "a", relations: ["next"])]),
            ("<a; rel=next", []), ("a; rel=next, <b>; rel=prev", []), ("", []), (" , ", []),
        ] as [(String, [HTTPResponse.Link])])
    func linksFollowTheGrammar(_ field: String, links: [HTTPResponse.Link]) {
        #expect(HTTPResponse.Link.all(in: field) == links)
    }

    @Test(arguments: [
        ("<a>; rel=next, <b>", ""), (" , ,<a>; rel=next,", ""), ("<a>;; rel=next; ", ""), ("", ""),
        ("http://h/2; rel=next", "http://h/2; rel=next"), ("<a>; rel=prev, x; rel=next", "x; rel=next"),
        ("<a; rel=next", "<a; rel=next"), ("<a> rel=next, <b>", "rel=next"),
    ])
    func malformedPartsAreKnown(_ field: String, _ unread: String) {
        #expect(HTTPResponse.Link.read(field).unread == unread)
        #expect(HTTPResponse.Link.all(in: ", " + field) == HTTPResponse.Link.all(in: field))
    }

    /// 4,000 fields with up to four links, written by the grammar of RFC 8288 §3 in every way that it allows: values as tokens
    /// or quoted strings with escapes, white space around separators, relation types and parameters in any case and order,
    /// repeated `rel`, extension parameters such as `title*`, empty elements of lists.
    @Test func writtenLinksAreReadAgain() {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<4_000 {
            let links = (0..<Int.random(in: 1...4, using: &random)).map { _ in Self.link(&random) }
            var field = ""
            for (index, link) in links.enumerated() {
                if index > 0 { field += Self.space(&random) + "," + Self.space(&random) }
                field += Self.text(of: link, &random)
            }
            #expect(HTTPResponse.Link.all(in: field) == links, "\(field)")
        }
    }

    private static func word(
        _ characters: String, _ range: ClosedRange<Int>, _ random: inout SystemRandomNumberGenerator
    ) -> String {
        let list = Array(characters)
        return String(
            (0..<Int.random(in: range, using: &random)).map { _ in list[Int.random(in: 0..<list.count, using: &random)]
            })
    }

    private static let token = "abXY019!#$%&'*+-.^_`|~"

    private static func link(_ random: inout SystemRandomNumberGenerator) -> HTTPResponse.Link {
        var link = HTTPResponse.Link(url: word("ab/?&=,;:@()'*+%20#", 0...12, &random), relations: [])
        for _ in 0..<Int.random(in: 0...3, using: &random) {
            link.relations.append(
                Bool.random(using: &random)
                    ? word("abcdn.-09", 1...5, &random) : "https://x.example/rel/\(word("abc", 1...3, &random))")
        }
        if Bool.random(using: &random) { link.anchor = word("ab/#,; ", 0...6, &random) }
        for name in ["title", "title*", "hreflang", "type", "media", "x-flag"]
        where Int.random(in: 0..<3, using: &random) == 0 {
            link.parameters[name] =
                name == "title*"
                ? "UTF-8''\(word("ab%20%C3%A9", 0...8, &random))" : word("ab ,;=<>\"\\é0", 0...8, &random)
        }
        return link
    }

    private static func space(_ random: inout SystemRandomNumberGenerator) -> String { word(" \t", 0...2, &random) }

    private static func text(of link: HTTPResponse.Link, _ random: inout SystemRandomNumberGenerator) -> String {
        var parameters: [(String, String)] = link.parameters.map { ($0.key, $0.value) }
        if let anchor = link.anchor { parameters.append(("anchor", anchor)) }
        parameters.shuffle(using: &random)
        if !link.relations.isEmpty {
            let types = link.relations.joined(
                separator: String(repeating: " ", count: Int.random(in: 1...2, using: &random)))
            parameters.insert(("rel", types), at: Int.random(in: 0...parameters.count, using: &random))
            // Of several, the first counts.
            if Int.random(in: 0..<4, using: &random) == 0 { parameters.append(("rel", "later")) }
        }
        var text = "<\(link.url)>"
        for (name, value) in parameters {
            text += space(&random) + ";" + space(&random)
            text += String(name.map { Bool.random(using: &random) ? Character($0.uppercased()) : $0 })
            if value.isEmpty, name != "anchor", Bool.random(using: &random) { continue }
            text += space(&random) + "=" + space(&random)
            let isToken = !value.isEmpty && value.allSatisfy { token.contains($0) }
            text += isToken && Bool.random(using: &random) ? value : quoted(value, &random)
        }
        // Semicolons without a parameter say nothing.
        return text + (Int.random(in: 0..<4, using: &random) == 0 ? " ; " : "")
    }

    private static func quoted(_ value: String, _ random: inout SystemRandomNumberGenerator) -> String {
        var text = "\""
        for character in value {
            if character == "\"" || character == "\\" || Int.random(in: 0..<6, using: &random) == 0 { text += "\\" }
            text.append(character)
        }
        return text + "\""
    }
}
