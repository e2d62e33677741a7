// Prints the file of its argument and its own executable's name.
package main

import (
	"fmt"
	"os"
)

func main() {
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	own, _ := os.Readlink("/proc/self/exe")
	fmt.Print(string(text), own, "\n")
}
