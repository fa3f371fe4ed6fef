import type { Theme } from 'vitepress';
import DefaultTheme from 'vitepress/theme-without-fonts';
import { h } from 'vue';
import { GatewayLinks } from './gateway-links.ts';
import './style.css';

const theme: Theme = {
  extends: DefaultTheme,
  Layout: () =>
    h(DefaultTheme.Layout, null, {
      'nav-bar-content-after': () => h(GatewayLinks),
      'nav-screen-content-after': () => h(GatewayLinks),
    }),
};
export default theme;
