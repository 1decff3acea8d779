import HTTPCore
import TestSupport
import Testing

@testable import LATClient

/// A link to the next page that the server has written badly must not end the list silently.
@Suite struct MalformedLinkTests {
    private struct Failure: Error {}

    @Test(arguments: [
        "http://h/2; rel=next", "x, </2>; rel=next", "</2; rel=\"next\"", "</2> rel=\"NEXT\"",
        "</0>; rel=prev, 2;rel=next",
    ])
    func malformedLinkDoesNotEndTheList(_ field: String) throws {
        var walk = PageWalk(.link)
        let page = HTTPResponse(status: 200, headers: ["Link": field], url: "http://h/1")
        guard case .broken(let error) = try walk.advance(after: page) else { throw Failure() }
        #expect(error.kind == .protocolViolation && error.message.contains("a list of links (RFC 8288)"))
    }

    @Test(arguments: ["", ",", "x", "</0>; rel=prev; next", "</0>; rel=\"prev\" title=\"a relation\""])
    func otherLinksEndTheList(_ field: String) throws {
        var walk = PageWalk(.link)
        let page = HTTPResponse(status: 200, headers: ["Link": field], url: "http://h/1")
        guard case .last = try walk.advance(after: page) else { throw Failure() }
    }

    @Test(arguments: ["</2>; rel='next'", "</2>; REL='prev Next'; title=\"it's\""])
    func singleQuotesAreRead(_ field: String) throws {
        var walk = PageWalk(.link)
        let page = HTTPResponse(status: 200, headers: ["Link": field], url: "http://h/1")
        guard case .more = try walk.advance(after: page) else { throw Failure() }
        #expect(walk.step.address == "http://h/2")
    }

    @Test func fragmentIsNoOtherPage() throws {
        var walk = PageWalk(.link)
        let page = HTTPResponse(status: 200, headers: ["Link": "<#more>; rel=next"], url: "http://h/1")
        guard case .broken(let error) = try walk.advance(after: page) else { throw Failure() }
        #expect(error.message.contains("names page 1 as the next one"))
    }

    @Test func emptyElementsOfTheLinkAreSkipped() throws {
        var walk = PageWalk(.link)
        let page = HTTPResponse(status: 200, headers: ["Link": ", ,</2>; rel=next"], url: "http://h/1")
        guard case .more = try walk.advance(after: page) else { throw Failure() }
    }
}
