import FoundationEssentials
import LATTesting

extension TemporaryDirectory {
    /// Writes `Config/domains.json5`.
    ///
    /// - Returns: The path of the file.
    func writeTable(_ text: String) throws -> String { try write(Data(text.utf8), to: "Config/domains.json5") }
}
