import Cryptography
import FoundationEssentials
import Testing

@testable import LATClient
@testable import LATSealing

@Suite struct SealedMessageTests {
    private static let key = Data(repeating: 7, count: 32)
    private let binding = SealedMessage.Binding(method: "POST", target: "/v1/orders?page=2")

    private func core(
        _ cipher: AuthenticatedCipher = .aes256GCM, keys: [String: Data] = ["k1": key], current: String = "k1",
        now: Int64 = 1_000_000
    ) throws -> SealingCore {
        try SealingCore(cipher, keys: keys, current: current, maxAge: .seconds(300), clock: { now })
    }

    @Test(arguments: AuthenticatedCipher.allCases, [Data(), Data("hello".utf8), Data(count: 100_000)])
    func sealedContentIsOpened(cipher: AuthenticatedCipher, content: Data) throws {
        let (bytes, nonce) = try core(cipher).seal(content, contentType: "a/b", kind: .request, to: binding)
        let opened = try core(cipher).open(bytes, kind: .request, to: binding)
        #expect(opened.content == content && opened.message.contentType == "a/b" && opened.message.nonce == nonce)
        #expect(opened.message.keyID == "k1" && opened.message.time == 1_000_000)
        if content.count > 10 { #expect(bytes.firstRange(of: content.prefix(10)) == nil) }
    }

    @Test func equalContentGivesDifferentMessages() throws {
        let core = try core()
        let messages = try (0..<50).map { _ in
            try core.seal(Data("same".utf8), contentType: nil, kind: .request, to: binding).bytes
        }
        #expect(Set(messages).count == 50)
    }

    @Test func maxAgeMayBeMonths() throws {
        let day: Int64 = 86_400_000
        func core(_ now: Int64) throws -> SealingCore {
            try SealingCore(
                .aes256GCM, keys: ["k1": Self.key], current: "k1", maxAge: .seconds(90 * 86_400), clock: { now })
        }
        let (bytes, _) = try core(0).seal(Data("a".utf8), contentType: nil, kind: .request, to: binding)
        #expect(try core(89 * day).open(bytes, kind: .request, to: binding).content == Data("a".utf8))
        #expect(throws: SealingFault.age(seconds: 91 * 86_400)) {
            try core(91 * day).open(bytes, kind: .request, to: binding)
        }
    }

    @Test func headHasTheDocumentedBytes() throws {
        let message = SealedMessage(
            cipher: .chaCha20Poly1305, kind: .reply, keyID: "k2", contentType: "a/b", time: 0x0102_0304_0506_0708,
            nonce: [UInt8](1...12), requestNonce: [UInt8](21...32))
        let expected: [UInt8] =
            Array("LATS".utf8) + [1, 2, 2, 2] + Array("k2".utf8) + [3] + Array("a/b".utf8) + [1, 2, 3, 4, 5, 6, 7, 8]
            + [UInt8](1...12) + [UInt8](21...32)
        #expect(message.head == expected)
        let parsed = try SealedMessage.parse(expected + [UInt8](repeating: 0, count: 16))
        #expect(parsed.message == message && parsed.headCount == expected.count)
    }

    @Test(arguments: AuthenticatedCipher.allCases, [SealedMessage.Kind.request, .reply])
    func everyFlippedBitIsDetected(cipher: AuthenticatedCipher, kind: SealedMessage.Kind) throws {
        let requestNonce = kind == .reply ? [UInt8](1...12) : []
        let sealed = try core(cipher).seal(
            Data("secret".utf8), contentType: "text/plain", kind: kind, requestNonce: requestNonce, to: binding
        ).bytes
        for index in sealed.indices {
            for bit in 0..<8 {
                var changed = sealed
                changed[index] ^= 1 << UInt8(bit)
                #expect(throws: SealingFault.self) { try core(cipher).open(changed, kind: kind, to: binding) }
            }
        }
    }

    @Test func everyTruncationIsDetected() throws {
        let sealed = try core().seal(Data("secret".utf8), contentType: "a/b", kind: .request, to: binding).bytes
        for count in 0..<sealed.count {
            #expect(throws: SealingFault.self) { try core().open(sealed.prefix(count), kind: .request, to: binding) }
        }
        #expect(throws: SealingFault.authentication) {
            try core().open(sealed + Data([0]), kind: .request, to: binding)
        }
    }

    @Test func messageIsBoundToMethodAndTarget() throws {
        let sealed = try core().seal(Data("x".utf8), contentType: nil, kind: .request, to: binding).bytes
        for other in [
            SealedMessage.Binding(method: "PUT", target: "/v1/orders?page=2"),
            SealedMessage.Binding(method: "POST", target: "/v1/orders?page=3"),
            SealedMessage.Binding(method: "POST", target: "/v1/orders?page=2", status: 200),
            SealedMessage.Binding(method: "POST\n/v1", target: "/orders?page=2"),
        ] {
            #expect(throws: SealingFault.authentication) { try core().open(sealed, kind: .request, to: other) }
        }
        #expect(throws: SealingFault.kind) { try core().open(sealed, kind: .reply, to: binding) }
        #expect(throws: SealingFault.cipher) {
            try core(.chaCha20Poly1305).open(sealed, kind: .request, to: binding)
        }
    }

    @Test func otherKeyDoesNotOpen() throws {
        let sealed = try core().seal(Data("x".utf8), contentType: nil, kind: .request, to: binding).bytes
        #expect(throws: SealingFault.unknownKey("k1")) {
            try core(keys: ["k2": Self.key], current: "k2").open(sealed, kind: .request, to: binding)
        }
        #expect(throws: SealingFault.authentication) {
            try core(keys: ["k1": Data(repeating: 8, count: 32)]).open(sealed, kind: .request, to: binding)
        }
    }

    @Test func oldKeyStillOpensAfterRotation() throws {
        let old = Data(repeating: 1, count: 32)
        let new = Data(repeating: 2, count: 32)
        let core = try core(keys: ["old": old], current: "old")
        let first = try core.seal(Data(), contentType: nil, kind: .request, to: binding).bytes
        try core.update(keys: ["old": old, "new": new], current: "new")
        let second = try core.seal(Data(), contentType: nil, kind: .request, to: binding).bytes
        #expect(try core.open(first, kind: .request, to: binding).message.keyID == "old")
        #expect(try core.open(second, kind: .request, to: binding).message.keyID == "new")
        #expect(throws: NetworkError.self) { try core.update(keys: ["old": old], current: "new") }
        #expect(
            try SealedMessage.parse(Array(core.seal(Data(), contentType: nil, kind: .request, to: binding).bytes))
                .message.keyID == "new")
    }

    @Test func replayedMessageIsRefused() throws {
        let sealed = try core().seal(Data("x".utf8), contentType: nil, kind: .request, to: binding).bytes
        let receiver = try core()
        _ = try receiver.open(sealed, kind: .request, to: binding)
        #expect(throws: SealingFault.replayed) { try receiver.open(sealed, kind: .request, to: binding) }
        // A cached message may be opened any number of times.
        for _ in 0..<3 { _ = try receiver.open(sealed, kind: .request, to: binding, isFresh: false) }
    }

    @Test func forgedMessageDoesNotConsumeTheNonce() throws {
        let sealed = try core().seal(Data("x".utf8), contentType: nil, kind: .request, to: binding).bytes
        let receiver = try core()
        var forged = sealed
        forged[forged.count - 1] ^= 1
        #expect(throws: SealingFault.authentication) { try receiver.open(forged, kind: .request, to: binding) }
        #expect(try receiver.open(sealed, kind: .request, to: binding).content == Data("x".utf8))
    }

    @Test(arguments: [-300_001, -300_000, 0, 300_000, 300_001] as [Int64])
    func messageOutsideMaxAgeIsRefused(difference: Int64) throws {
        let sealed = try core().seal(Data(), contentType: nil, kind: .request, to: binding).bytes
        let receiver = try core(now: 1_000_000 + difference)
        if abs(difference) > 300_000 {
            #expect(throws: SealingFault.age(seconds: difference / 1000)) {
                try receiver.open(sealed, kind: .request, to: binding)
            }
            _ = try receiver.open(sealed, kind: .request, to: binding, isFresh: false)
        } else {
            _ = try receiver.open(sealed, kind: .request, to: binding)
        }
    }

    @Test func invalidKeysAreRefusedByName() {
        for (keys, current, words) in [
            ([:], "k1", "k1"), (["k1": Data(count: 16)], "k1", "16 bytes"), (["": Data(count: 32)], "", "1 to 255"),
            (["k1": Data(count: 32), "k2": Data()], "k1", "k2"),
        ] as [([String: Data], String, String)] {
            do {
                _ = try AESGCMSealer(keys: keys, current: current)
                Issue.record("the keys were accepted: \(keys)")
            } catch {
                #expect(error.kind == .invalidRequest && error.message.contains(words), "\(error)")
            }
        }
    }
}

@Suite struct ReplayWindowTests {
    private func nonce(_ number: Int) -> [UInt8] { Array("\(number)".utf8) }

    @Test func nonceIsRememberedWhileItIsValid() throws {
        var window = ReplayWindow(maxAge: 100, capacity: 1000)
        for number in 0..<50 { try window.accept(nonce(number), time: Int64(number), now: 50) }
        for number in 0..<50 {
            #expect(throws: SealingFault.replayed) { try window.accept(nonce(number), time: Int64(number), now: 50) }
        }
        #expect(window.count == 50)
        try window.accept(nonce(100), time: 149, now: 149)
        #expect(window.count == 2)
        #expect(throws: SealingFault.age(seconds: 0)) { try window.accept(nonce(48), time: 48, now: 149) }
        #expect(throws: SealingFault.replayed) { try window.accept(nonce(49), time: 49, now: 149) }
    }

    @Test func clockSetBackAcceptsNoReplay() throws {
        var window = ReplayWindow(maxAge: 100, capacity: 1000)
        try window.accept(nonce(1), time: 10, now: 10)
        try window.accept(nonce(2), time: 500, now: 500)
        #expect(throws: SealingFault.replayed) { try window.accept(nonce(1), time: 10, now: 20) }
        try window.accept(nonce(3), time: 20, now: 20)
    }

    @Test func boundedWindowAcceptsNoReplay() throws {
        var window = ReplayWindow(maxAge: 1_000_000, capacity: 100)
        for number in 0..<5_000 { try window.accept(nonce(number), time: Int64(number), now: 5_000) }
        #expect(window.count <= 100)
        for number in 0..<5_000 {
            #expect(throws: SealingFault.replayed) { try window.accept(nonce(number), time: Int64(number), now: 5_000) }
        }
        try window.accept(nonce(9_999), time: 4_999, now: 5_000)
    }

    @Test func arrivalOrderDoesNotMatter() throws {
        var window = ReplayWindow(maxAge: 1_000, capacity: 1_000)
        for number in [5, 1, 9, 3, 7, 3_0, 2] { try window.accept(nonce(number), time: Int64(number), now: 10) }
        for number in [1, 2, 3, 5, 7, 9] {
            #expect(throws: SealingFault.replayed) { try window.accept(nonce(number), time: Int64(number), now: 10) }
        }
        try window.accept(nonce(4), time: 4, now: 10)
    }

    @Test(arguments: [Int64.min, .max, .min + 1])
    func absurdTimesDoNotCrash(time: Int64) {
        var window = ReplayWindow(maxAge: 1_000, capacity: 10)
        #expect(throws: SealingFault.self) { try window.accept(nonce(1), time: time, now: 0) }
        #expect(throws: SealingFault.self) { try window.accept(nonce(1), time: time, now: -5) }
    }
}
