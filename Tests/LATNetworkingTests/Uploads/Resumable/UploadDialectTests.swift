import Cryptography
import FoundationEssentials
import HTTPCore
import LATClient
import Testing

@testable import CurlTransport
@testable import LATTransfers

/// What the dialects make of responses, and which fields go with which request, without a server.
@Suite struct UploadDialectTests {
    private static let content = UploadedContent(
        method: "PUT", url: "http://h/a", fileName: "a", contentType: "text/plain", metadata: [:], sendsChecksums: true,
        busy: RetryPolicy.transientStatuses)

    private func response(_ status: Int, _ headers: HTTPHeaders = [:], _ text: String = "") -> HTTPResponse {
        HTTPResponse(status: status, headers: headers, body: ResponseBody(Data(text.utf8)), url: "http://h/a")
    }

    private func isViolation(_ answer: UploadPlan.Answer) -> Bool {
        if case .violation = answer { true } else { false }
    }

    private func problem(_ name: String, _ members: String = "") -> String {
        "{\"type\": \"https://iana.org/assignments/http-problem-types#\(name)\"\(members)}"
    }

    // MARK: The draft

    private let draft = DraftUpload(content)

    private func plan(isCreated: Bool = true) -> UploadPlan {
        var plan = UploadPlan(total: 100, .standard)
        if isCreated { _ = plan.noteInterim("http://h/u", UploadPlan.Facts(), to: .create(lane: 0, 0..<100)) }
        return plan
    }

    @Test func partialContentIsNotTakenForAll() {
        let creation = UploadPlan.Step.create(lane: 0, 0..<0)
        let answer = { draft.answer(to: creation, response(201, $0), plan(isCreated: $1)) }
        #expect(isViolation(answer(["Location": "/u"], false)), "an ordinary server has stored an empty object")
        #expect(answer(["Location": "/u", "Upload-Complete": "?0"], false) == .created("http://h/u", stored: 0))
        #expect(answer([:], true) == .created("http://h/u", stored: 0), "104 has told")
    }

    @Test(arguments: [
        UploadPlan.Step.create(lane: 0, 0..<100), .send(lane: 0, 50..<100), .complete,
    ])
    func completeUploadHasAllBytes(step: UploadPlan.Step) {
        let complete: HTTPHeaders = ["Upload-Complete": "?1"]
        #expect(draft.answer(to: step, response(200, complete), plan()) == .finished)
        let full = complete.merging(["Upload-Offset": "100"])
        #expect(draft.answer(to: step, response(200, full), plan()) == .finished)
        let short = complete.merging(["Upload-Offset": "60"])
        #expect(isViolation(draft.answer(to: step, response(200, short), plan())))
        #expect(draft.answer(to: step, response(422, complete), plan()) == .failed)
        let sent = UploadPlan.Step.send(lane: 0, 0..<50)
        #expect(isViolation(draft.answer(to: sent, response(200, complete), plan())), "half of it was not sent")
    }

    private func isUnusable(_ answer: UploadPlan.Answer) -> Bool {
        if case .unusable = answer { true } else { false }
    }

    @Test(arguments: [(.ask(lane: 0), .whole), (.verify, .finished)] as [(UploadPlan.Step, UploadPlan.Answer)])
    func endedUploadIsNotTakenForWhole(step: UploadPlan.Step, answer: UploadPlan.Answer) {
        var doubtful = plan()
        doubtful.noteCompletion()
        func answers(_ offset: String?, _ plan: UploadPlan) -> UploadPlan.Answer {
            let headers: HTTPHeaders = ["Upload-Complete": "?1", "Upload-Offset": offset]
            return draft.answer(to: step, response(204, headers), plan)
        }
        #expect(answers("100", plan()) == answer)
        #expect(isUnusable(answers("60", plan())) && isUnusable(answers("60", doubtful)))
        #expect(isUnusable(answers(nil, plan())) && answers(nil, doubtful) == answer)
    }

    @Test(arguments: [UploadPlan.Step.create(lane: 0, 0..<100), .send(lane: 0, 50..<100), .complete])
    func successWithoutTheFieldIsConfirmed(step: UploadPlan.Step) {
        #expect(draft.answer(to: step, response(200), plan()) == .unconfirmed)
        var old = plan()
        old.version = 5
        #expect(draft.answer(to: step, response(200), old) == .finished, "versions before 6 need not say it")
        var page = response(200)
        page.redirects = [.init(url: "http://h/login", status: 303)]
        let answer = draft.answer(to: step, page, plan())
        #expect(answer == (step == .complete ? .unrepeated : .again(.conflict)), "a page is no result")
        page.redirects = [.init(url: "http://h/v", status: 307)]
        #expect(draft.answer(to: step, page, plan()) == .unconfirmed)
    }

    @Test func ordinaryServerNeedsNoField() {
        let creation = UploadPlan.Step.create(lane: 0, 0..<100)
        #expect(draft.answer(to: creation, response(200), plan(isCreated: false)) == .finished)
    }

    @Test(
        arguments: [
            (400, .unrepeated), (404, .unrepeated), (409, .unrepeated), (429, .again(.busy)), (401, .refused),
            (403, .refused),
        ] as [(Int, UploadPlan.Answer)])
    func refusedCompletionIsVerified(status: Int, answer: UploadPlan.Answer) {
        #expect(draft.answer(to: .complete, response(status), plan()) == answer)
    }

    @Test func problemOfACompleteUploadAsksForItsState() {
        let type: HTTPHeaders = ["Content-Type": "application/problem+json"]
        let answer = draft.answer(to: .complete, response(400, type, problem("completed-upload")), plan())
        #expect(answer == .unrepeated)
        #expect(draft.answer(to: .verify, response(204, ["Upload-Complete": "?0"]), plan()) == .refused)
    }

    @Test func problemNamesTheExpectedOffset() {
        let type: HTTPHeaders = ["Content-Type": "application/problem+json"]
        let step = UploadPlan.Step.send(lane: 0, 0..<50)
        let text = problem("mismatching-upload-offset", ", \"expected-offset\": 20, \"provided-offset\": 0")
        #expect(draft.answer(to: step, response(409, type, text), plan()) == .offset(20))
        #expect(draft.answer(to: step, response(409, ["Upload-Offset": "30"]), plan()) == .offset(30))
        let texts = [
            problem("other", ", \"expected-offset\": 20"),
            problem("mismatching-upload-offset", ", \"expected-offset\": -20"),
        ]
        for text in texts {
            #expect(draft.answer(to: step, response(409, type, text), plan()) == .again(.conflict))
        }
    }

    @Test func limitOfNoBytesIsNone() {
        let facts = draft.facts(["Upload-Limit": "max-append-size=0, min-append-size=5"])
        #expect(facts.maxPart == nil && facts.minPart == 5)
    }

    @Test(
        arguments: [
            (200, ["Upload-Offset": "20"], .offset(20)), (200, [:], .again(.conflict)),
            (200, ["Upload-Offset": "20", "Upload-Length": "99"], .again(.conflict)), (403, [:], .refused),
            (404, [:], .gone), (410, [:], .gone), (503, [:], .again(.busy)), (400, [:], .refused),
        ] as [(Int, HTTPHeaders, UploadPlan.Answer)])
    func onlyMissingUploadsAreGone(status: Int, headers: HTTPHeaders, answer: UploadPlan.Answer) {
        #expect(draft.answer(to: .ask(lane: 0), response(status, headers), plan()) == answer)
        var tus = UploadPlan(total: 100, .tus)
        _ = tus.note(.created("http://h/u", stored: 0), to: .create(lane: 0, 0..<0))
        #expect(TusUpload(Self.content).answer(to: .ask(lane: 0), response(status, headers), tus) == answer)
    }

    @Test(
        arguments: [(204, .probed), (405, .probed), (429, .again(.busy)), (503, .again(.busy))]
            as [(Int, UploadPlan.Answer)])
    func busyServerIsProbedAgain(status: Int, answer: UploadPlan.Answer) {
        #expect(draft.answer(to: .probe, response(status), plan()) == answer)
        #expect(TusUpload(Self.content).answer(to: .probe, response(status), plan()) == answer)
    }

    // MARK: S3

    private let s3 = S3Upload(content)

    private func parts(checksums: Bool = true, encrypted: Bool = false) throws -> UploadPlan {
        var plan = UploadPlan(total: 100, .s3(partSize: 50))
        _ = plan.note(.created("u", stored: nil), to: .begin)
        for index in 0..<2 {
            let bytes = Data("\(index)".utf8)
            let tag = encrypted ? "\"opaque\"" : "\"\(MessageDigest.hexadecimal(try MessageDigest.of(bytes, .md5)))\""
            let sum = Data(try MessageDigest.of(bytes, .sha256)).base64EncodedString()
            let part = UploadPlan.Part(tag: tag, checksum: checksums ? sum : nil)
            _ = plan.note(.stored(part), to: .send(lane: index, plan.lanes[index].range))
        }
        plan.noteCompletion()
        return plan
    }

    @Test func objectIsKnownByItsChecksumOrTag() throws {
        let sums = try (0..<2).flatMap { try MessageDigest.of(Data("\($0)".utf8), .sha256) }
        let sum = Data(try MessageDigest.of(Data(sums), .sha256)).base64EncodedString() + "-2"
        let tags = try (0..<2).flatMap { try MessageDigest.of(Data("\($0)".utf8), .md5) }
        let tag = "\"\(MessageDigest.hexadecimal(try MessageDigest.of(Data(tags), .md5)))-2\""
        let verify = { (headers: HTTPHeaders, plan: UploadPlan) in s3.answer(to: .verify, response(200, headers), plan)
        }
        #expect(verify(["x-amz-checksum-sha256": sum, "ETag": "\"x\""], try parts(encrypted: true)) == .finished)
        #expect(verify(["x-amz-checksum-sha256": "AAAA-2", "ETag": tag], try parts()) == .gone)
        #expect(verify(["ETag": tag, "Content-Length": "100"], try parts(checksums: false)) == .finished)
        #expect(verify(["ETag": tag, "Content-Length": "99"], try parts(checksums: false)) == .gone)
        #expect(isViolation(verify(["ETag": "\"x\""], try parts(checksums: false, encrypted: true))))
        let encrypted: HTTPHeaders = ["ETag": "\"x\"", "x-amz-server-side-encryption": "aws:kms"]
        #expect(isViolation(verify(encrypted, try parts(checksums: false))), "its tags are no MD5s")
        #expect(s3.message(for: .verify, try parts()).headers["x-amz-checksum-mode"] == "ENABLED")
    }

    @Test func unreadableObjectMayBeComplete() throws {
        for status in [429, 503] { #expect(s3.answer(to: .verify, response(status), try parts()) == .again(.busy)) }
        #expect(s3.answer(to: .verify, response(404), try parts()) == .gone)
        #expect(isViolation(s3.answer(to: .verify, response(403), try parts())))
    }

    @Test func smallPartsEndTheUpload() throws {
        let text = "<Error><Code>EntityTooSmall</Code></Error>"
        guard case .unusable(let reason) = s3.answer(to: .complete, response(400, [:], text), try parts()) else {
            Issue.record("the upload could never succeed, and is kept")
            return
        }
        #expect(reason.contains("partSize to 5242880"))
    }

    @Test func listWithoutMarkerGoesOnAfterItsLastPart() throws {
        let text = "<IsTruncated>true</IsTruncated><Part><PartNumber>7</PartNumber><ETag>a</ETag></Part>"
        guard case .listed(_, let next) = s3.answer(to: .list(after: 0), response(200, [:], text), try parts()) else {
            Issue.record("no list")
            return
        }
        #expect(next == 7)
    }

    @Test func partNumbersOutOfRangeAreIgnored() throws {
        let text = ["-9223372036854775808", "0", "1", "10001", "9223372036854775807"].map {
            "<Part><PartNumber>\($0)</PartNumber><ETag>a</ETag></Part>"
        }.joined()
        let answer = s3.answer(to: .list(after: 0), response(200, [:], text), try parts())
        #expect(answer == .listed([1: .init(tag: "a")], next: nil))
    }

    @Test(
        arguments: [
            ("<CompleteMultipartUploadResult xmlns=\"a\"><ETag>b</ETag></CompleteMultipartUploadResult>", .finished),
            (" \n ", .unrepeated), ("<html>Sign in</html>", .unrepeated),
            ("<Error><Code>InternalError</Code></Error>", .again(.busy)),
            ("<Error><Code>NoSuchUpload</Code></Error>", .gone),
        ] as [(String, UploadPlan.Answer)])
    func onlyTheResultIsASuccess(text: String, answer: UploadPlan.Answer) throws {
        #expect(s3.answer(to: .complete, response(200, [:], text), try parts()) == answer)
    }

    // MARK: Fields

    @Test(
        arguments: [
            ("x-amz-meta-a", .creation), ("x-amz-acl", .creation), ("Cache-Control", .creation),
            ("Content-Type", .creation),
            ("If-None-Match", .completion), ("if-match", .completion),
        ] as [(String, UploadMessage.Role)])
    func fieldOfS3GoesWithOneRequest(name: String, role: UploadMessage.Role) {
        for other in [UploadMessage.Role.creation, .completion, .part] {
            #expect(UploadOrder.belongs(name, to: other, .s3) == (other == role))
        }
    }

    @Test func fieldsOfAllRequestsStay() {
        for role in [UploadMessage.Role.creation, .completion, .part] {
            for name in ["x-amz-server-side-encryption-customer-key", "x-amz-request-payer", "Authorization", "X-A"] {
                #expect(UploadOrder.belongs(name, to: role, .s3))
            }
            #expect(!UploadOrder.belongs("x-amz-checksum-sha256", to: role, .s3), "it is that of the whole object")
            #expect(UploadOrder.belongs("If-Match", to: role, .standard) == (role == .creation))
        }
    }

    private func order(_ url: String, _ upload: ResumableUpload, _ path: String = "/tmp") -> UploadOrder {
        UploadOrder(
            request: HTTPRequest("POST", url, body: .file(path)), upload: upload, policy: RetryPolicy(),
            budget: RetryBudget(nil, .continuous), maxConnectionsPerHost: 6, isReplayed: { _, _ in false },
            send: { _, _, _ in throw CancellationError() },
            sendAfter: { _ in throw CancellationError() })
    }

    @Test(arguments: ["http://h/u", "ftp://h/u"]) func addressWithoutEncryptionIsRefused(address: String) {
        let message = UploadMessage("PATCH", address)
        let error = #expect(throws: NetworkError.self) { try order("https://h/a", .tus).request(for: message) }
        #expect(error?.kind == .protocolViolation && error?.message.contains("https") == true)
        #expect(throws: Never.self) {
            try order("https://h/a", .tus).request(for: UploadMessage("PATCH", "https://i/u"))
        }
        #expect(throws: Never.self) { try order("http://h/a", .tus).request(for: UploadMessage("PATCH", "http://h/u")) }
    }

    @Test func keyGoesWithTheRequestThatHasTheEffect() throws {
        var order = order("http://h/a", .tus(parallel: 2))
        order.request.idempotencyKey = "k"
        var facts = UploadPlan.Facts()
        facts.canJoin = true
        var plan = UploadPlan(total: 100, .tus(parallel: 2))
        plan.take(facts)
        _ = plan.note(.probed, to: .probe)
        let dialect = TusUpload(Self.content)
        let keys = try [UploadPlan.Step.create(lane: 0, 0..<0), .create(lane: 1, 50..<50), .complete].map {
            try order.request(for: dialect.message(for: $0, plan)).idempotencyKey
        }
        #expect(keys == [nil, nil, "k"])
    }

    @Test func uploadsOfOtherDescriptionDiffer() {
        let plain = order("http://h/a", .tus)
        var orders = [plain, order("http://h/a?b=c", .tus), order("http://h/a", .tus(metadata: ["d": "e"]))]
        for (name, value) in [("Content-Type", "text/plain"), ("Content-Language", "de"), ("Authorization", "a")] {
            var other = plain
            other.request.headers[name] = value
            orders.append(other)
        }
        var keyed = plain
        keyed.request.idempotencyKey = "k"
        orders.append(keyed)
        #expect(Set(orders.map(\.identity)).count == orders.count - 1, "credentials change between runs")
        for index in orders.indices { orders[index].upload.identity = "i" }
        #expect(Set(orders.map(\.identity)).count == 1)
    }

    @Test func amazonTakesNoSmallParts() throws {
        let path = #filePath
        let order = { (host: String) in self.order("https://\(host)/a", .s3(partSize: 1_000), path) }
        let error = #expect(throws: NetworkError.self) { try order("b.s3.eu-west-1.amazonaws.com").check() }
        #expect(error?.kind == .invalidRequest && error?.message.contains("partSize to 5242880") == true)
        #expect(throws: Never.self) { try order("store.example.org").check() }
    }
}
