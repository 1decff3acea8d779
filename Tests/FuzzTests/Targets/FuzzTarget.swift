import FoundationEssentials

/// A function that takes any bytes and throws when they reveal a fault. A fuzzer searches for such bytes, and a test
/// replays those in `Corpus`.
///
/// `scripts/fuzz` compiles this folder into a program with libFuzzer.
struct FuzzTarget: Sendable, CustomStringConvertible {
    let name: String
    let run: @Sendable ([UInt8]) throws -> Void

    var description: String { name }

    static let all = [
        FuzzTarget(name: "codings", run: fuzzCodings),
        FuzzTarget(name: "cookies", run: fuzzCookies),
        FuzzTarget(name: "dictionaries", run: fuzzDictionaries),
        FuzzTarget(name: "digest", run: fuzzDigest),
        FuzzTarget(name: "disposition", run: fuzzDisposition),
        FuzzTarget(name: "fields", run: fuzzFields),
        FuzzTarget(name: "frames", run: fuzzFrames),
        FuzzTarget(name: "head", run: fuzzHead),
        FuzzTarget(name: "journal", run: fuzzJournal),
        FuzzTarget(name: "json", run: fuzzJSON),
        FuzzTarget(name: "json5", run: fuzzJSON5),
        FuzzTarget(name: "multipart", run: fuzzMultipart),
        FuzzTarget(name: "record", run: fuzzRecord),
        FuzzTarget(name: "revocation", run: fuzzRevocation),
        FuzzTarget(name: "structured", run: fuzzStructured),
        FuzzTarget(name: "table", run: fuzzTable),
        FuzzTarget(name: "urls", run: fuzzURLs),
    ]
}

/// A description of a fault.
struct FuzzFault: Error, CustomStringConvertible {
    let description: String
}

func expect(_ condition: Bool, _ message: @autoclosure () -> String) throws(FuzzFault) {
    guard condition else { throw FuzzFault(description: message()) }
}

func text(_ bytes: some Collection<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }
