import Testing

@testable import HTTPCore

@Suite struct FieldListTests {
    @Test func quotedStringsStayWhole() {
        #expect(FieldList.elements(of: #" a ,,"b,\"c" ; d=1, e "#) == ["a", #""b,\"c" ; d=1"#, "e"])
        let parts = FieldList.elements(of: #"h3=":443"; ma=60;persist=1"#, separatedBy: UInt8(ascii: ";"))
        #expect(parts == [#"h3=":443""#, "ma=60", "persist=1"])
        #expect(FieldList.elements(of: " , ") == [])
        #expect(FieldList.elements(of: #""open, a"#) == [#""open, a"#])
    }

    @Test func parametersLoseQuotesAndCase() {
        #expect(FieldList.parameter(#" Max-Age = "31\"5" "#) == ("max-age", #"31"5"#))
        #expect(FieldList.parameter("includeSubDomains") == ("includesubdomains", nil))
        #expect(FieldList.parameter("a=") == ("a", ""))
        #expect(FieldList.unquoted("\"") == "\"")
    }
}
