// walk DIR: walks a tree, reads its files from several goroutines, and prints what it found and its working directory.
package main

import (
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync"
)

func main() {
	executable, err := os.Executable()
	fmt.Println(executable, err)
	var lines []string
	var lock sync.Mutex
	var all sync.WaitGroup
	add := func(line string) {
		lock.Lock()
		lines = append(lines, line)
		lock.Unlock()
	}
	err = filepath.WalkDir(os.Args[1], func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		add(fmt.Sprintln(path, entry.Type(), info.Mode(), info.Name(), err))
		all.Add(1)
		go func() {
			defer all.Done()
			content, err := os.ReadFile(path)
			target, linkErr := os.Readlink(path)
			add(fmt.Sprintln(path, len(content), crc32.ChecksumIEEE(content), err, target, linkErr))
		}()
		return nil
	})
	all.Wait()
	sort.Strings(lines)
	fmt.Print(lines, err, "\n")
	_, err = os.Stat(filepath.Join(os.Args[1], "none"))
	fmt.Println(err, os.IsNotExist(err))
	if len(os.Args) == 2 {
		output, err := exec.Command(executable, os.Args[1], "again").CombinedOutput()
		fmt.Println(strings.Count(string(output), "\n"), err)
	}
}
