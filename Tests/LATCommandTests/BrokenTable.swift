import Testing

/// A table with a mistake, and the output of `lat domains check`.
struct BrokenTable: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let text: String
    /// The output without the file's name in front.
    let printed: String

    init(_ name: String, _ text: String, _ printed: String) {
        testDescription = name
        self.text = text
        self.printed = printed
    }

    static let all = [
        BrokenTable(
            "an empty file",
            #"""

            """#,
            #"""
            1:1: error: the file is empty; expected { … }

            ^
            """#),
        BrokenTable(
            "an object that is not closed",
            #"""
            {
              domains: {
            """#,
            #"""
            2:13: error: the file ends inside the object that begins in line 2; expected "}"
              domains: {
                        ^
            """#),
        BrokenTable(
            "a missing comma",
            #"""
            { domains: { a: { baseURL: "http://h" timeout: "5s" } } }
            """#,
            #"""
            1:39: error: expected "," before "timeout"
            { domains: { a: { baseURL: "http://h" timeout: "5s" } } }
                                                  ^~~~~~~
            """#),
        BrokenTable(
            "an unknown key",
            #"""
            {
              domains: {
                a: { basURL: "http://h" },
              },
            }
            """#,
            #"""
            3:10: error: unknown key "basURL"; did you mean "baseURL"?
                a: { basURL: "http://h" },
                     ^~~~~~
            """#),
        BrokenTable(
            "a number for a duration",
            #"""
            { domains: { a: { baseURL: "http://h", timeout: 5 } } }
            """#,
            #"""
            1:49: error: "timeout" must be a duration such as "250ms", "60s", "5m", "1h30m" or "2d", found the \#
            number 5; write "5s" for seconds
            { domains: { a: { baseURL: "http://h", timeout: 5 } } }
                                                            ^
            """#),
        BrokenTable(
            "an invalid duration",
            #"""
            { domains: { a: { baseURL: "http://h", timeout: "soon" } } }
            """#,
            #"""
            1:49: error: "timeout" must be a duration such as "250ms", "60s", "5m", "1h30m" or "2d", found the \#
            string "soon"
            { domains: { a: { baseURL: "http://h", timeout: "soon" } } }
                                                            ^~~~~~
            """#),
        BrokenTable(
            "a URL with another scheme",
            #"""
            { domains: { a: { baseURL: "ftp://h" } } }
            """#,
            #"""
            1:28: error: "baseURL" must be an absolute http or https URL; "ftp://h" has the scheme "ftp"
            { domains: { a: { baseURL: "ftp://h" } } }
                                       ^~~~~~~~~
            """#),
        BrokenTable(
            "a duplicate domain",
            #"""
            {
             domains: {
              a: { baseURL: "http://h" },
              a: { baseURL: "http://i" } } }
            """#,
            #"""
            4:3: error: duplicate domain "a"; the first is in line 3
              a: { baseURL: "http://i" } } }
              ^
            """#),
        BrokenTable(
            "an unknown domain",
            #"""
            { domains: { demo: { baseURL: "http://h" } },
              servers: { s: { domain: "dmo", path: "x" } } }
            """#,
            #"""
            2:27: error: unknown domain "dmo"; did you mean "demo"?
              servers: { s: { domain: "dmo", path: "x" } } }
                                      ^~~~~
            """#),
        BrokenTable(
            "an unknown cache policy",
            #"""
            { domains: { a: { baseURL: "http://h", cache: "htp" } } }
            """#,
            #"""
            1:47: error: unknown value "htp" of "cache"; did you mean "http"?
            { domains: { a: { baseURL: "http://h", cache: "htp" } } }
                                                          ^~~~~
            """#),
        BrokenTable(
            "an absolute path",
            #"""
            { domains: { a: { baseURL: "http://h" } },
              servers: { s: { domain: "a", path: "http://evil/x" } } }
            """#,
            #"""
            2:38: error: the path "http://evil/x" is an absolute URL and would leave the domain; write a path, or \#
            allowsAbsolute: true when that is meant
              servers: { s: { domain: "a", path: "http://evil/x" } } }
                                                 ^~~~~~~~~~~~~~~
            """#),
        BrokenTable(
            "a brace that is not closed in a path",
            #"""
            { domains: { a: { baseURL: "http://h" } },
              servers: { s: { domain: "a", path: "x/{id" } } }
            """#,
            #"""
            2:41: error: the path "x/{id" cannot be used: { is not closed; write {name}
              servers: { s: { domain: "a", path: "x/{id" } } }
                                                    ^
            """#),
        BrokenTable(
            "an invalid pin",
            #"""
            { domains: { a: { baseURL: "http://h", pins: ["abc"] } } }
            """#,
            #"""
            1:47: error: a pin must be "sha256//" and the Base64 of 32 bytes, found the string "abc"
            { domains: { a: { baseURL: "http://h", pins: ["abc"] } } }
                                                          ^~~~~
            """#),
        BrokenTable(
            "a header with a line break",
            #"""
            { domains: { a: { baseURL: "http://h",
             headers: { "X": "a\nb" } } } }
            """#,
            #"""
            2:18: error: the header "X" contains a line break or another control character
             headers: { "X": "a\nb" } } } }
                             ^~~~~~
            """#),
        BrokenTable(
            "an envelope without a code",
            #"""
            { domains: { a: { baseURL: "http://h",
            	envelope: { message: "m", success: [1] } } } }
            """#,
            #"""
            2:12: error: the envelope has no "code"; write its path, such as code: "status"
            	envelope: { message: "m", success: [1] } } } }
            	          ^
            """#),
        BrokenTable(
            "a domain that is not an object",
            #"""
            { domains: { "大象": "http://h" } }
            """#,
            #"""
            1:20: error: the domain "大象" must be an object { … }, found the string "http://h"
            { domains: { "大象": "http://h" } }
                                 ^~~~~~~~~~
            """#),
    ]
}
