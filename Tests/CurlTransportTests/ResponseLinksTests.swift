import CurlTransport
import HTTPCore
import Testing

@Suite struct ResponseLinksTests {
    private func links(_ fields: String...) -> HTTPResponse.Links {
        let headers = HTTPHeaders(fields.map { ("Link", $0) })
        return HTTPResponse(status: 200, headers: headers, url: "http://h:81/a/b?page=1").links
    }

    @Test func linksAreAbsoluteAndFoundByRelation() {
        let links = links(#"<?page=2,3>; rel="NEXT last""#, "</a>; rel=prev, <//x/y>; rel=up", "<>; rel=self")
        #expect(links["next"]?.url == "http://h:81/a/b?page=2,3" && links["Last"]?.url == links["next"]?.url)
        #expect(links["prev"]?.url == "http://h:81/a" && links["up"]?.url == "http://x/y")
        #expect(links["self"]?.url == "http://h:81/a/b?page=1" && links["first"] == nil)
        #expect(links.map(\.relations) == [["next", "last"], ["prev"], ["up"], ["self"]])
    }

    @Test func linkOfAnotherResourceIsNotTheResponses() {
        let links = links(
            #"<c>; rel=next; anchor="/other""#, ##"<d>; rel="next"; anchor="#part""##, #"<e>; rel=next; anchor="""#)
        #expect(links["next"]?.url == "http://h:81/a/e")
        #expect(links.map(\.anchor) == ["http://h:81/other", "http://h:81/a/b?page=1#part", nil])
    }

    @Test func linkThatCannotBeResolvedIsLeftOut() {
        #expect(Array(links("<http://h:x/>; rel=next, <b>; rel=next")).map(\.url) == ["http://h:81/a/b"])
        #expect(links()["next"] == nil)
    }
}
