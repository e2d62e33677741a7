import java.nio.file.Files;
import java.nio.file.Path;

/** Prints the file of its argument, and how many entries its directory has. */
public class Read {
    public static void main(String[] arguments) throws Exception {
        Path file = Path.of(arguments[0]);
        System.out.print(Files.readString(file));
        try (var names = Files.list(file.getParent())) {
            System.out.println(names.count());
        }
        System.out.println(file.toRealPath());
    }
}
