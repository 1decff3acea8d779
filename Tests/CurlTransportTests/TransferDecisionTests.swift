import HTTPCore
import Platform
import Testing

@testable import CurlTransport

/// Single decisions of ``TransferMachine``.
@Suite struct TransferDecisionTests {
    private let start = MonotonicTime(nanoseconds: 1_000_000_000)

    /// Returns a running machine that has received a head line.
    private func running(_ rules: TransferMachine.Rules = .init(), isStream: Bool = false) -> TransferMachine {
        var machine = TransferMachine(rules, isStream: isStream)
        _ = machine.submitted(nil, start)
        _ = machine.started(start)
        _ = machine.connectionIsReady(start, sent: 0, isMultiplexed: false)
        _ = machine.receivedHeadLine(start)
        return machine
    }

    private func redirect(_ length: Int64? = nil) -> TransferMachine.Head {
        TransferMachine.Head(status: 302, contentLength: length, isFollowed: true)
    }

    private func take(_ count: Int, _ machine: inout TransferMachine) -> TransferMachine.BodyAction {
        machine.receivedBody(count, start, isReaderBehind: false, coded: 1)
    }

    /// libcurl does not see the kernel send the end of an upload. The last bytes that leave are activity as well.
    @Test func bytesThatLeftTheKernelAreActivity() {
        var machine = TransferMachine(.init(idleTimeout: 1_000, hasBody: true))
        _ = machine.submitted(nil, start)
        _ = machine.started(start)
        _ = machine.connectionIsReady(start, sent: 0, isMultiplexed: false)
        var now = start
        for (unsent, isSilent) in [(900, false), (100, false), (0, false), (0, true)] {
            now = now + 1_000
            #expect(machine.checkSilence(now) == .silent(inKernel: true))
            #expect(machine.checkedBuffer(unsent: unsent, now) == (isSilent ? nil : now + 1_000), "\(unsent)")
        }
    }

    /// The caller may suspend a transfer in the turn in which its response ends.
    @Test func suspendedTransferHasItsWholeBody() throws {
        let transfer = Transfer(
            request: HTTPRequest("POST", "https://a.example/"), target: try Target("https://a.example/"),
            plan: TransferPlan(EngineConfiguration()), pipe: nil)
        transfer.machine = running()
        _ = Array("HTTP/2 200\r\nContent-Length: 3\r\n\r\n".utf8).withUnsafeBufferPointer { transfer.head.append($0) }
        _ = take(2, &transfer.machine)
        #expect(!transfer.hasWholeBody)
        _ = take(1, &transfer.machine)
        _ = transfer.machine.updated(TransferState(isSuspended: true), start, isReaderBehind: false)
        #expect(transfer.hasWholeBody)
    }

    /// libcurl begins again when the stream of a response is reset with HTTP_1_1_REQUIRED.
    @Test(arguments: [200, 401, 407, 500]) func onlyChallengesLeadToAnotherConnection(status: Int) {
        for (count, isAllowed) in [(0, status == 401 || status == 407), (1, false)] {
            var machine = running(.init(mayBeChallenged: true))
            _ = machine.receivedHead(.init(status: status), start)
            if count > 0 { _ = take(count, &machine) }
            #expect(
                machine.connectionIsReady(start, sent: 100, isMultiplexed: true) == (isAllowed ? .send : .hasResponse))
        }
    }

    @Test func expectationFailsOnce() {
        var machine = running(.init(hasBody: true, expects: true))
        #expect([500, 417, 417].map { machine.expectationFails($0) } == [false, true, false])
        var other = running(.init(hasBody: true))
        let fails = other.expectationFails(417)
        #expect(!fails)
    }

    @Test(arguments: [false, true]) func shortRedirectIsCollected(isStream: Bool) {
        var machine = running(isStream: isStream)
        #expect(machine.receivedHead(redirect(65_536), start) == .checkSilence(start + TransferMachine.drainTime))
        #expect(take(65_536, &machine) == .keep)
        #expect(machine.concluded(isSuccess: true, hasHead: true) == .answer)
        #expect(!machine.isStream && !machine.hasAnswered)
    }

    @Test func largeRedirectIsDeliveredAtItsHead() {
        var announced = running()
        #expect(announced.receivedHead(redirect(65_537), start) == .answer)
        #expect(announced.isStream)
        var unannounced = running()
        _ = unannounced.receivedHead(redirect(), start)
        #expect(take(65_536, &unannounced) == .keep)
        #expect(take(1, &unannounced) == .answerAndKeep)
    }

    @Test func slowRedirectIsDeliveredAfterDrainTime() {
        var machine = running()
        _ = machine.receivedHead(redirect(), start)
        let end = start + TransferMachine.drainTime
        #expect(machine.checkSilence(start + 249) == .again(end))
        #expect(machine.checkSilence(end) == .answer)
        #expect(machine.checkSilence(end) == .never)
        // The drain time does not pass while the transfer is suspended.
        var held = running()
        _ = held.receivedHead(redirect(), start)
        _ = held.updated(TransferState(isSuspended: true), start, isReaderBehind: false)
        #expect(held.checkSilence(end) == .again(end + TransferMachine.drainTime))
    }

    @Test func bodyLimitDoesNotApplyToRedirects() {
        let rules = TransferMachine.Rules(maxBodySize: 1000)
        var followed = running(rules)
        #expect(followed.receivedHead(redirect(1 << 30), start) == .answer)
        var answer = running(rules)
        #expect(answer.receivedHead(.init(status: 302, contentLength: 1001), start) == .bodyTooLarge)
        #expect(take(1, &answer) == .refuse)
    }

    @Test func challengeIsNotDelivered() {
        var machine = running(
            TransferMachine.Rules(mayBeChallenged: true, hasBody: true, readsBody: true), isStream: true)
        #expect(machine.receivedHead(.init(status: 401), start) == .wait)
        #expect(machine.sending == .read)
        #expect(machine.receivedHead(.init(status: 403), start) == .answer)
        #expect(machine.sending == .end)
    }

    @Test func decompressionRatioIsLimited() {
        var machine = running(TransferMachine.Rules(maxDecompressionRatio: 200, decompresses: true))
        _ = machine.receivedHead(.init(status: 200, isCoded: true), start)
        #expect(take(Int(TransferMachine.decompressionGrace), &machine) == .keep)
        #expect(take(1, &machine) == .decompressionBomb)
    }

    @Test func onlyABodyIsDecoded() {
        func isDecoded(_ status: Int, _ rules: TransferMachine.Rules, isCoded: Bool = true) -> Bool {
            var machine = running(rules)
            _ = machine.receivedHead(.init(status: status, isCoded: isCoded), start)
            return machine.isDecoded
        }
        let rules = TransferMachine.Rules(decompresses: true)
        #expect(isDecoded(200, rules) && isDecoded(404, rules))
        #expect(!isDecoded(200, rules, isCoded: false) && !isDecoded(200, TransferMachine.Rules()))
        #expect(!isDecoded(204, rules) && !isDecoded(304, rules))
        #expect(!isDecoded(200, TransferMachine.Rules(hasNoContent: true, decompresses: true)))
        // The body of a proxy's refusal is dropped, and an upgraded connection carries no body.
        #expect(!isDecoded(407, TransferMachine.Rules(decompresses: true, hasHTTPProxy: true)))
        #expect(!isDecoded(101, TransferMachine.Rules(decompresses: true, upgrades: true)))
    }

    @Test func codedBytesWaitForTheReaderOfAStream() {
        var machine = running(TransferMachine.Rules(decompresses: true), isStream: true)
        _ = machine.receivedHead(.init(status: 500, isCoded: true), start)
        var waits = machine.waitsForReader(false)
        #expect(!waits && machine.pause == .none)
        waits = machine.waitsForReader(true)
        #expect(waits && machine.pause == .receiving)
        machine.stop()
        waits = machine.waitsForReader(true)
        #expect(!waits)
        var collected = running(TransferMachine.Rules(decompresses: true))
        _ = collected.receivedHead(.init(status: 200, isCoded: true), start)
        waits = collected.waitsForReader(true)
        #expect(!waits)
    }
}
