// Puts the page together.

document.querySelector(".top").append(themeButton());
document.getElementById("lead").textContent = lead.filter((text) => text !== null).join(" · ");
document.getElementById("foot").textContent =
  `Made by lmc ${fmt.text(data.version)}. This page loads nothing from elsewhere.`;
for (const build of sections) build();

// Marks the section that is being read.
const links = new Map(
  [...document.querySelectorAll("#nav a")].map((link) => [link.getAttribute("href").slice(1), link]),
);
const seen = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      for (const [id, link] of links) {
        if (id === target.id) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
      const link = links.get(target.id);
      link.parentElement.scrollLeft = link.offsetLeft - link.parentElement.clientWidth / 2;
    }
  },
  { rootMargin: "-30% 0px -60% 0px" },
);
for (const part of document.querySelectorAll("section")) seen.observe(part);
