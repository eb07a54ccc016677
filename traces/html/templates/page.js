(() => {
  "use strict";
  const unfold = (element) => {
    for (let at = element; at; at = at.parentElement) {
      if (at instanceof HTMLDetailsElement) at.open = true;
    }
  };
  const follow = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    unfold(target);
    target.scrollIntoView();
  };
  addEventListener("hashchange", follow);
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(unfold));
  follow();
})();
