import FoundationEssentials
import Testing

@testable import CurlTransport

@Suite struct DigestChallengeTests {
    private func parsed(_ field: String) -> DigestChallenge? {
        AuthenticationScheme.all(in: [field]).first { $0.name == "digest" }.flatMap { DigestChallenge($0.parameters) }
    }

    private func parameters(_ field: String?) -> [String: String] {
        field.flatMap { AuthenticationScheme.all(in: [$0]).first?.parameters } ?? [:]
    }

    /// RFC 7616 §3.9.1.
    @Test(arguments: [
        ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
        ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
    ])
    func rfc7616ExamplesMatch(algorithm: String, response: String) throws {
        let challenge = try #require(
            parsed(
                """
                Digest realm="http-auth@example.org", qop="auth, auth-int", algorithm=\(algorithm), \
                nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", \
                opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"
                """))
        let answer = challenge.answer(
            to: .init(method: "GET", target: "/dir/index.html", user: "Mufasa", password: "Circle of Life"), count: 1,
            clientNonce: "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ")
        #expect(
            parameters(answer) == [
                "username": "Mufasa", "realm": "http-auth@example.org", "uri": "/dir/index.html",
                "algorithm": algorithm, "nonce": "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", "nc": "00000001",
                "cnonce": "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ", "qop": "auth", "response": response,
                "opaque": "FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS",
            ])
        #expect(answer?.contains("nc=00000001, qop=auth,") == true)
    }

    /// RFC 2617 §3.5, and RFC 2069 §2.4 with its erratum.
    @Test func earlierRFCExamplesMatch() throws {
        let common = "Digest realm=\"testrealm@host.com\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\""
        let counted = try #require(parsed(common + ",qop=\"auth,auth-int\""))
        var request = DigestChallenge.Request(
            method: "GET", target: "/dir/index.html", user: "Mufasa", password: "Circle Of Life")
        #expect(
            parameters(counted.answer(to: request, count: 1, clientNonce: "0a4f113b"))["response"]
                == "6629fae49393a05397450978507c4ef1")
        let plain = try #require(parsed(common))
        request.password = "CircleOfLife"
        let answer = parameters(plain.answer(to: request, count: 1, clientNonce: "0a4f113b"))
        #expect(answer["response"] == "1949323746fe6a43ef61f9606e7febea")
        #expect(answer["nc"] == nil && answer["qop"] == nil && answer["cnonce"] == nil)
    }

    @Test func userNameIsHashedWhenAsked() throws {
        let challenge = try #require(parsed("Digest realm=r, nonce=n, qop=auth, userhash=true"))
        let request = DigestChallenge.Request(method: "GET", target: "/", user: "u", password: "p")
        let answer = parameters(challenge.answer(to: request, count: 2, clientNonce: "c"))
        #expect(answer["username"] == "ba84be203fdfc7d34e054a76d285d0c9")  // printf 'u:r' | md5sum
        #expect(answer["userhash"] == "true")
        #expect(answer["nc"] == "00000002")
    }

    /// RFC 7616 §3.9.2, with the values of its erratum 4897: `printf 'user:realm' | openssl sha512-256`.
    @Test func userIsHashedWithSHA512256() throws {
        let challenge = try #require(
            parsed(
                """
                Digest realm="api@example.org", qop="auth", algorithm=SHA-512-256, charset=UTF-8, userhash=true, \
                nonce="5TsQWLVdgBdmrQ0XsxbDODV+57QdFR34I9HAbC/RVvkK", opaque="HRPCssKJSGjCrkzDg8OhwpzCiGPChXYjwrI2QmXDnsOS"
                """))
        let request = DigestChallenge.Request(
            method: "GET", target: "/doe.json", user: "Jäsøn Doe", password: "Secret, or not?")
        let answer = parameters(
            challenge.answer(to: request, count: 1, clientNonce: "NTg6RKcb9boFIAS3KrFK9BGeh+iDa/sm6jUMp2wds69v"))
        #expect(answer["username"] == "793263caabb707a56211940d90411ea4a575adeccb7e360aeb624ed06ece9b0b")
        #expect(answer["response"] == "3798d4131c277846293534c3edc11bd8a5e4cdcbff78b05db9d95eeb1cec68a5")
    }

    /// md5(md5(md5("u:r:p"):n:c):n:00000001:c:auth:md5("GET:/"))
    @Test func sessionKeyIncludesBothNonces() throws {
        let challenge = try #require(parsed("Digest realm=r, nonce=n, qop=auth, algorithm=MD5-sess"))
        let request = DigestChallenge.Request(method: "GET", target: "/", user: "u", password: "p")
        let answer = parameters(challenge.answer(to: request, count: 1, clientNonce: "c"))
        #expect(answer["response"] == "6e4aac8b22e97762f88ccd0d5ccf5b1d" && challenge.isForOneRequest)
    }

    @Test(arguments: ["auth, auth-int", "auth-int ,auth", " auth ", "auth-int,\tAUTH", ",auth,"])
    func qualityIsFoundInAList(list: String) { #expect(parsed("Digest realm=r, nonce=n, qop=\"\(list)\"") != nil) }

    @Test func firstSupportedChallengeIsPreferred() {
        let fields = [
            "Digest realm=r, nonce=a, algorithm=NEW-1, qop=auth, Digest realm=r, nonce=b, qop=auth-int",
            "Basic realm=x, Digest realm=r, nonce=c, algorithm=SHA-512-256, qop=auth",
            "Digest realm=r, nonce=d, qop=auth",
        ]
        let chosen = DigestChallenge.preferred(among: AuthenticationScheme.all(in: fields))
        #expect(chosen?.nonce == "c" && chosen?.isForLibcurl == false)
    }

    /// The example of RFC 7616 §3.9.1 with `auth-int`, computed with Python's hashlib.
    @Test func answerCoversTheBodyWhenAsked() throws {
        let challenge = try #require(
            parsed("Digest realm=\"http-auth@example.org\", nonce=\"7yp\", qop=\"auth-int\", algorithm=SHA-256"))
        var request = DigestChallenge.Request(
            method: "POST", target: "/dir/index.html", user: "Mufasa", password: "Circle of Life",
            body: Data("a=1".utf8))
        let answer = parameters(challenge.answer(to: request, count: 1, clientNonce: "f2/"))
        #expect(challenge.coversBody && !challenge.isForLibcurl && answer["qop"] == "auth-int")
        #expect(answer["response"] == "ddbc829377f8d8c39feccba9ef67ca6b25ebafb6fd3252b1c1a6ef0a141afb56")
        request.body = nil
        #expect(challenge.answer(to: request, count: 1, clientNonce: "f2/") == nil)
        let both = AuthenticationScheme.all(in: [
            "Digest realm=r, nonce=a, qop=auth-int, Digest realm=r, nonce=b, qop=auth"
        ])
        #expect(DigestChallenge.preferred(among: both)?.nonce == "b")
    }

    @Test func nameInUTF8IsEncoded() throws {
        let request = DigestChallenge.Request(method: "GET", target: "/", user: "Jä d", password: "p")
        let plain = try #require(parsed("Digest realm=r, nonce=n, qop=auth"))
        #expect(plain.answer(to: request, count: 1, clientNonce: "c")?.contains("username=\"Jä d\"") == true)
        let encoded = try #require(parsed("Digest realm=r, nonce=n, qop=auth, charset=UTF-8"))
        #expect(
            encoded.answer(to: request, count: 1, clientNonce: "c")?.contains("username*=UTF-8''J%C3%A4%20d") == true)
    }

    @Test func quotesAreEscaped() throws {
        let challenge = try #require(parsed(#"Digest realm="a \"b\" \\c", nonce="n""#))
        #expect(challenge.realm == #"a "b" \c"#)
        let request = DigestChallenge.Request(method: "GET", target: "/", user: #"d"e"#, password: "p")
        let answer = challenge.answer(to: request, count: 1, clientNonce: "c")
        #expect(answer?.hasPrefix(#"Digest username="d\"e", realm="a \"b\" \\c", nonce="n""#) == true)
        #expect(parameters(answer)["username"] == #"d"e"#)
    }

    @Test func schemesAreParsedSeparately() {
        let schemes = AuthenticationScheme.all(in: [
            "Negotiate abc==, Digest realm=\"a, Basic realm=b\" ,  NONCE = x,stale=TRUE, Basic realm=\"c\"", "Bearer",
            "",
            "=\"", ",,,", "\"", "NTLM",
        ])
        #expect(schemes.map(\.name).filter { $0 != "abc" } == ["negotiate", "digest", "basic", "bearer", "ntlm"])
        #expect(schemes.first { $0.name == "digest" }?.parameters["realm"] == "a, Basic realm=b")
        #expect(schemes.first { $0.name == "digest" }?.parameters["nonce"] == "x")
        #expect(schemes.first { $0.name == "basic" }?.parameters == ["realm": "c"])
        #expect(parsed("Digest realm=r, nonce=n, stale=TRUE")?.isStale == true)
        #expect(AuthenticationScheme.parameter("nextnonce", of: "rspauth=\"x, nextnonce=y\", nextnonce=\"z\"") == "z")
    }

    @Test(arguments: [
        "Digest", "Digest realm=r", "Digest nonce=n", "Digest realm=r, nonce=\"\"",
        "Digest realm=r, nonce=n, algorithm=SHA-1", "Digest realm=r, nonce=n, qop=auth-conf",
        "Digest realm=r, nonce=n, algorithm=MD5-other", "Digest realm=r, nonce=n, qop=\"\"",
        "Digest realm=r, nonce=\"n\r\nX: y\"",
        "Digest realm=r, nonce=\"" + String(repeating: "n", count: 5000) + "\"", "Digest realm=\"r, nonce=n",
    ])
    func unsupportedChallengesAreSkipped(field: String) {
        #expect(parsed(field) == nil)
    }
}

@Suite struct DigestCacheTests {
    private func key(_ origin: String = "http://a:80", user: String = "u", socket: String? = nil) -> DigestCache.Key {
        .init(origin: origin, user: user, unixSocketPath: socket)
    }

    private func challenge(_ nonce: String) throws -> DigestChallenge {
        try #require(DigestChallenge(["realm": "r", "nonce": nonce, "qop": "auth"]))
    }

    @Test func nonceCountIncreases() throws {
        var cache = DigestCache()
        cache.note(try challenge("n"), for: key(), isAnswered: true)
        #expect(cache.use(key())?.count == 2)
        #expect(cache.use(key())?.count == 3)
        cache.note(try challenge("n"), for: key(), isAnswered: true)
        #expect(cache.use(key())?.count == 4)
        cache.note(try challenge("m"), for: key(), isAnswered: false)
        #expect(cache.use(key())?.count == 1)
        cache.renew(key(), nonce: "l")
        #expect(cache.use(key())?.challenge.nonce == "l")
        #expect(cache.use(key())?.count == 2)
        cache.forget(key())
        #expect(cache.use(key()) == nil)
    }

    @Test func challengesAreKeptPerOriginAndUser() throws {
        var cache = DigestCache()
        cache.note(try challenge("n"), for: key(), isAnswered: true)
        for other in [key("https://a:443"), key("http://a:8080"), key(user: "v"), key(socket: "/s")] {
            #expect(cache.use(other) == nil)
            cache.renew(other, nonce: "x")
            #expect(cache.use(other) == nil)
        }
    }

    @Test func leastRecentlyUsedIsEvicted() throws {
        var cache = DigestCache()
        for number in 0..<DigestCache.limit {
            cache.note(try challenge("n"), for: key("\(number)"), isAnswered: true)
        }
        _ = cache.use(key("0"))
        cache.note(try challenge("n"), for: key("more"), isAnswered: true)
        #expect(cache.count == DigestCache.limit)
        #expect(cache.use(key("0")) != nil && cache.use(key("more")) != nil)
        #expect(cache.use(key("1")) == nil)
    }
}
