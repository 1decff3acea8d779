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

    @Test func writtenLinksAreReadAgain() {
        var generator = SystemRandomNumberGenerator()
        let characters = Array("ab,;=<\"\\ é0")
        func text(without left: String) -> String {
            String(
                (0..<Int.random(in: 0...6, using: &generator)).compactMap { _ in
                    characters.filter { !left.contains($0) }.randomElement(using: &generator)
                })
        }
        for _ in 0..<2_000 {
            let links = (0..<Int.random(in: 1...4)).map { index in
                HTTPResponse.Link(
                    url: text(without: ">"), relations: ["r\(index)", "next"],
                    anchor: index == 1 ? text(without: "") : nil,
                    parameters: ["title": text(without: "")])
            }
            func quoted(_ text: String) -> String {
                "\"" + text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"") + "\""
            }
            let field = links.map { link in
                "<\(link.url)>; rel=\"\(link.relations.joined(separator: " "))\"; title=\(quoted(link.parameters["title"] ?? ""))"
                    + (link.anchor.map { "; anchor=\(quoted($0))" } ?? "")
            }.joined(separator: [",", ", ", " ,"].randomElement() ?? ",")
            #expect(HTTPResponse.Link.all(in: field) == links, "\(field)")
        }
    }
}
