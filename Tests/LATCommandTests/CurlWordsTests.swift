import LATTesting
import TestSupport
import Testing

@testable import lat

/// Command lines of curl, answered with those of lat.
@Suite struct CurlWordsTests {
    @Test(arguments: [
        ("-X PUT u.test/a", "lat PUT u.test/a"), ("-XPUT u.test", "lat PUT u.test"),
        ("--request=PATCH u.test", "lat PATCH u.test"),
        ("-L u.test", "lat u.test"), ("-sSL u.test", "lat u.test"), ("-I u.test", "lat HEAD u.test"),
        ("-X GET u.test", "lat u.test"),
        ("-sSLo out.bin u.test", "lat u.test -o out.bin"), ("-s u.test -k -u a:b", "lat u.test -k -u a:b"),
        ("-X POST u.test -d name=Ada&age=36", "lat u.test name=Ada age=36 -f"),
        ("-X POST u.test -d a=b%20c+d", "lat u.test 'a=b c d' -f"),
        ("-X PUT u.test -d a=1 -H X-Trace:1", "lat PUT u.test a=1 X-Trace:1 -f"),
        ("-s u.test -d {\"a\":1} -H Content-Type:application/json", "lat u.test '{\"a\":1}'"),
        ("-s u.test -d plain", "lat u.test Content-Type:application/x-www-form-urlencoded -d plain"),
        (
            "-s u.test --data-binary @f.json -H Content-Type:application/json",
            "lat u.test @f.json Content-Type:application/json"
        ),
        ("-G u.test -d q=swift -d page=2", "lat u.test q==swift page==2"),
        ("-G u.test --data-urlencode q=a&b", "lat u.test 'q==a&b'"),
        ("u.test -F img=@a.png -F title=Sea", "lat u.test img@a.png title=Sea"),
        ("-T a.png u.test/a.png", "lat PUT u.test/a.png @a.png"),
        ("-A me -e http://h/ u.test", "lat u.test User-Agent:me Referer:http://h/"),
        ("-b a=b u.test", "lat u.test Cookie:a=b"), ("--compressed -m 5 u.test", "lat u.test -m 5"),
        ("-b jar -c jar u.test", "lat u.test -b jar"), ("-c jar u.test", "lat u.test -b jar"),
        ("-L -m 5 -o a --max-time 6 u.test", "lat u.test -o a -m 6"),
        (
            "-L --resolve a:1:127.0.0.1 --resolve b:1:127.0.0.1 u.test",
            "lat u.test --resolve a:1:127.0.0.1 --resolve b:1:127.0.0.1"
        ),
        ("-L --url u.test", "lat u.test"), ("request -L u.test", "lat u.test"),
        ("-L -E c.pem:pw u.test", "lat u.test --cert c.pem --key-password pw"),
        ("-L --cert c.pem u.test", "lat u.test --cert c.pem"),
        ("--cert a\\:b.pem:p:q u.test", "lat u.test --cert a:b.pem --key-password p:q"),
        ("-L -d @f.txt u.test", "lat u.test @f.txt Content-Type:application/x-www-form-urlencoded"),
        ("--oauth2-bearer t u.test", "lat u.test --bearer t"),
        ("-L http://u.test/?a=1&b=2", "lat 'http://u.test/?a=1&b=2'"), ("POST -L u.test", "lat POST u.test"),
    ]) func curlIsRewritten(_ line: String, _ rewritten: String) throws {
        let arguments = line.split(separator: " ").map(String.init)
        let answer = try #require(CurlWords.answer(to: arguments))
        #expect(
            answer.hasSuffix("of curl; write \(rewritten)") || answer.hasSuffix("); write \(rewritten)"), "\(answer)")
        // What is proposed is itself a command line of lat.
        let words = ShellLine.words(rewritten).dropFirst().map { $0.filter { $0 != "'" } }
        _ = try Invocation(Array(words))
    }

    @Test(arguments: [
        "u.test", "-H X:1 u.test", "POST u.test -d a=b", "-b jar u.test", "-F img=a.png u.test", "-v -i -k u.test -o f",
        "-X", "--nope u.test",
        "-L", "-L u.test http://v.test", "-L --nope u.test",
    ]) func otherLinesAreNotAnswered(_ line: String) {
        #expect(CurlWords.answer(to: line.split(separator: " ").map(String.init)) == nil)
    }

    @Test func differencesAreTold() {
        #expect(CurlWords.answer(to: ["-X", "PUT", "u.test"])?.contains("unless --no-follow is given") == true)
        #expect(CurlWords.answer(to: ["-X", "PUT", "-L", "u.test"])?.contains("--no-follow") == false)
        let text = CurlWords.answer(to: ["-L", "-d", "@f", "u.test"])
        #expect(text?.contains("sends the line ends of a file, too") == true)
        #expect(CurlWords.answer(to: ["-L", "--data-binary", "@f", "u.test"])?.contains("line ends") == false)
    }

    @Test func reasonsAreNamedOnce() {
        #expect(
            CurlWords.answer(to: ["-sL", "-L", "u.test"])
                == "-s and -L are words of curl (lat shows nothing but the response and follows redirects); write lat u.test"
        )
    }

    /// Lines for which lat would send something else.
    @Test(arguments: [
        ["-F", "b=c"], ["-F", "a=<f"], ["--data-raw", "@tpl.txt"], ["--data-urlencode", "name@f"],
        ["--data-urlencode", "plain text"], ["-d", "a=1", "-d", "@f"], ["-b", "old", "-c", "new"],
        ["--json", "{}", "--json", "{}"],
    ]) func lineWithoutACounterpartIsNotTranslated(_ options: [String]) throws {
        let answer = try #require(CurlWords.answer(to: ["-X", "POST"] + options + ["http://h/a"]))
        #expect(answer.contains("no exact counterpart") && !answer.contains("write lat"))
    }

    @Test func answerIsAnErrorAndNothingIsSent() async throws {
        let server = try MockServer()
        let result = try await LatProcess.run(["-X", "PUT", "-L", server.url("/a")])
        #expect(result.exitCode == 2 && result.out.isEmpty && server.requests.isEmpty)
        #expect(
            result.err
                == "lat: -X and -L are words of curl (lat follows redirects); write lat PUT \(server.url("/a"))\n")
    }

    /// The proposed lines send what curl sends.
    @Test(arguments: [
        ["-X", "POST", "-d", "name=Ada&age=36"], ["-G", "-d", "q=a%20b"],
        ["-X", "PUT", "-H", "Content-Type: application/json", "-d", "[1]"],
        ["-I"], ["-s", "-A", "me", "-b", "c=d"],
    ]) func proposedLineSendsTheSame(_ options: [String]) async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        _ = try await LatProcess(options + [server.url("/a")], program: "/usr/bin/curl").result
        let answer = try #require(CurlWords.answer(to: options + [server.url("/a")]))
        let line = try #require(answer.firstRange(of: "write ").map { String(answer[$0.upperBound...]) })
        let folder = try TemporaryDirectory()
        #expect(try await Shell.run("/bin/sh", line, in: folder).exitCode == 0)
        try #require(server.requests.count == 2)
        let (curl, lat) = (server.requests[0], server.requests[1])
        #expect(lat.method == curl.method && lat.body == curl.body)
        #expect(lat.queryItems == curl.queryItems)
        #expect(
            lat.headers["Content-Type"] == curl.headers["Content-Type"]
                && lat.headers["Cookie"] == curl.headers["Cookie"])
    }
}
