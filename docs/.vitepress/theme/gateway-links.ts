import { type FunctionalComponent, h } from 'vue';

/** Paths that the gateway serves beside the site. The target keeps the router of the site from taking these for pages. */
const LINKS = [
  { text: 'API', href: '/docs' },
  { text: 'Console', href: '/console/' },
] as const;

export const GatewayLinks: FunctionalComponent = () =>
  h(
    'nav',
    { class: 'gateway-links', 'aria-label': 'Of this server' },
    LINKS.map(({ text, href }) => h('a', { href, target: '_self' }, text)),
  );
