// Applies, before the first paint, the theme that the reader chose. The default is the system's.
try {
  const theme = localStorage.getItem('theme');
  if (theme) document.documentElement.dataset.theme = theme;
} catch {
  // Storage is off.
}
