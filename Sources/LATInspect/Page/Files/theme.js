// Before the first paint: the scheme that the reader chose, else the system's.
try {
  const theme = localStorage.getItem('theme');
  if (theme) document.documentElement.dataset.theme = theme;
} catch {
  // Storage is off.
}
