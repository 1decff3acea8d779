import DomainTables
import Glibc

// Generates Swift code for the names in tables. The build plugin runs it.
//
//     DomainTableGenerator [--access public] [--root FOLDER] [--output FILE] TABLE…
//
// With `--print schema` or `--print keys` alone it prints the JSON schema of tables, or the table of keys of the
// documentation. Without --output it prints the code. It exits with 1 for invalid tables, after printing diagnostics like a compiler's on
// standard error, and with 2 for invalid arguments.

func printError(_ text: String) {
    let line = Array((text + "\n").utf8)
    _ = write(STDERR_FILENO, line, line.count)
}

switch CommandLine.arguments.dropFirst() {
case ["--print", "schema"]:
    print(TableSchema.text, terminator: "")
    exit(0)
case ["--print", "keys"]:
    print(TableSchema.documentation, terminator: "")
    exit(0)
default: break
}

do throws(GeneratorArguments.Problem) {
    let arguments = try GeneratorArguments(Array(CommandLine.arguments.dropFirst()))
    var generator = NameGenerator(arguments)
    for path in arguments.tables { generator.read(path) }
    for problem in generator.problems { printError(problem) }
    guard !generator.hasFailed else { exit(1) }
    guard let output = arguments.output else {
        print(generator.text, terminator: "")
        exit(0)
    }
    guard let file = fopen(output, "w"), fputs(generator.text, file) >= 0, fclose(file) == 0 else {
        printError("error: \(output) cannot be written")
        exit(1)
    }
} catch {
    printError("error: \(error.message)")
    exit(2)
}
