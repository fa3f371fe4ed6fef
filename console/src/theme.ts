import {
  Alert,
  Badge,
  type CSSVariablesResolver,
  createTheme,
  Drawer,
  DrawerHeader,
  Modal,
  ModalHeader,
  Notification,
} from '@mantine/core';

/** Text on a lighter ground than this is black, else white: either way its contrast is above 4.5. */
const LUMINANCE_THRESHOLD = 0.18;

const CLOSABLE = { closeButtonProps: { 'aria-label': 'Close' } } as const;

export const theme = createTheme({
  primaryColor: 'blue',
  // White text on the darkest shade has the contrast that WCAG 2.2 AA asks for, on Mantine's own shade it has not.
  primaryShade: 9,
  autoContrast: true,
  luminanceThreshold: LUMINANCE_THRESHOLD,
  defaultRadius: 'sm',
  cursorType: 'pointer',
  respectReducedMotion: true,
  components: {
    // A long line in an alert scrolls, and does not widen the alert beyond the screen of a phone.
    Alert: Alert.extend({ styles: { body: { minWidth: 0 } } }),
    // The word of a badge is not cut off in a narrow column.
    Badge: Badge.extend({ defaultProps: { miw: 'max-content' } }),
    Drawer: Drawer.extend({ defaultProps: CLOSABLE }),
    Modal: Modal.extend({ defaultProps: CLOSABLE }),
    // The labels would keep the colours of the other scheme for a moment when the scheme changes.
    SegmentedControl: { defaultProps: { transitionDuration: 0 } },
    Notification: Notification.extend({ defaultProps: CLOSABLE }),
    // A <header> outside of an article or a section is the banner of the page for screen readers.
    DrawerHeader: DrawerHeader.extend({ defaultProps: { role: 'presentation' } }),
    ModalHeader: ModalHeader.extend({ defaultProps: { role: 'presentation' } }),
  },
});

/** Mantine's colours of secondary text, errors and light grounds, with the contrast that WCAG 2.2 AA asks for. */
export const cssVariables: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    '--mantine-color-dimmed': '#5c636a',
    '--mantine-color-placeholder': '#6c757d',
    '--mantine-color-error': 'var(--mantine-color-red-9)',
    '--mantine-color-teal-light-color': '#06694b',
    '--mantine-color-green-light-color': '#1f6b2f',
    '--mantine-color-lime-light-color': '#3f6606',
    '--mantine-color-yellow-light-color': '#7d3f00',
    '--mantine-color-orange-light-color': '#8f2d06',
    '--mantine-color-yellow-text': '#7d3f00',
    '--mantine-color-orange-text': '#8f2d06',
    '--mantine-color-green-text': '#1f6b2f',
    '--mantine-color-red-light-color': '#a51d1d',
  },
  dark: {
    '--mantine-color-dimmed': 'var(--mantine-color-dark-1)',
    '--mantine-color-placeholder': '#9a9a9a',
    '--mantine-color-error': 'var(--mantine-color-red-4)',
  },
});
